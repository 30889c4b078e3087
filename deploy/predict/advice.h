// Chooses among the ways in which one job could run: which strategy, how many workers and servers. The choice
// keeps the job's global batch; what changes its updates (asynchronous and stale-synchronous jobs) is listed
// apart, since epochs to an accuracy are not predicted. Pure; any thread.
#ifndef TETHYS_DEPLOY_PREDICT_ADVICE_H_
#define TETHYS_DEPLOY_PREDICT_ADVICE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "proto/prediction.pb.h"
#include "runtime/shape/job_shape.h"

namespace tethys {

struct Candidate {
  JobShape shape;
  proto::Prediction prediction;
  double step_seconds = 0;  // The part of prediction.total that its steps take; 0: all after the start.
  // Measured in brief runs: samples a second of each; empty: not verified.
  std::vector<double> measured = {};
  // How it uses hosts that differ (HostUse in host_uses.h); empty: as the host file says.
  std::string use = {};

  // Whether its updates are those of the local job, but for rounding.
  bool synchronous() const { return TraitsOf(shape.strategy).lock_step; }
  int processes() const { return shape.workers + shape.servers; }
  // Whether the median of its brief runs lies outside the prediction's 90 % interval.
  bool contradicted() const;
  // Seconds of the whole run: the prediction or, after a verification, that at the measured rate.
  double total() const;
  // The cost of the whole run, in the currency of the price; 0: no price.
  double cost() const;
};

struct AdviceGoal {
  absl::optional<double> deadline;  // Seconds for the whole run.
  absl::optional<double> budget;    // In the currency of the prices.
};

// The candidates to verify by brief runs, at most `most`: the predicted best of each synchronous strategy,
// then the best of each strategy in each use of the hosts, by half of the places that are left, then those
// whose 90 % interval overlaps the interval of the predicted best. Asynchronous candidates are left out.
std::vector<int> ToVerify(const std::vector<Candidate>& candidates, const AdviceGoal& goal, int most);

// After a round of brief runs: the unverified candidates that would be faster than the fastest measured one,
// if their predictions were wrong by the same factor as those of the verified candidates of their strategy
// and use. At most `most`, the best first.
std::vector<int> ToVerifyNext(const std::vector<Candidate>& candidates, int most);

struct Advice {
  int best = -1;    // Index of the candidate that meets the goal best.
  bool met = true;  // Whether it meets deadline and budget; false: it comes nearest.
  // The best of the others if it differs from `best` by less than 3 %, or than what runs of one candidate do;
  // -1: it does not.
  int tied = -1;
  int second = -1;              // The best of another strategy; -1: there is none.
  bool second_differs = false;  // Its time differs from that of `best` by more than in `tied`.
  std::vector<int> pareto;      // Synchronous candidates that none beats in both time and cost, by ascending
                                // time; without those of unknown cost, if any cost is known.
};
// The best of those that are as good within 3 % is the one with the fewest processes. Otherwise:
// the fastest within the budget or, with a deadline, the cheapest within it (the fastest, unless all costs
// are known). Verified candidates go before all others, because the best of many predictions is optimistic;
// but if none of them meets the goal and another is predicted to, that one is the best. `candidates` holds at
// least one synchronous one.
Advice Choose(const std::vector<Candidate>& candidates, const AdviceGoal& goal);

// Workers or servers to consider: all numbers up to twice `fine` (at least 1), then steps that grow, and
// `most`.
std::vector<int> NumbersUpTo(int most, int fine = 8);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PREDICT_ADVICE_H_
