// Chooses among the ways in which one job could run: which strategy, how many workers and servers. All
// candidates keep the job's global batch. Asynchronous and stale-synchronous candidates change the updates,
// so they are listed apart, since epochs to an accuracy are not predicted. Pure; any thread.
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
  double step_seconds = 0;  // The part of prediction.total that the steps take; 0: all of it after the start.
  // The samples per second of each brief run; empty: the candidate is not verified.
  std::vector<double> measured = {};
  // How the candidate uses hosts that differ (HostUse in host_uses.h); empty: as the host file says.
  std::string use = {};

  // True if the updates of this candidate equal those of the local job, apart from rounding.
  bool synchronous() const { return TraitsOf(shape.strategy).lock_step; }
  int processes() const { return shape.workers + shape.servers; }
  // True if the median of the brief runs of this candidate lies outside the prediction's 90 % interval.
  bool contradicted() const;
  // Seconds of the whole run: as predicted or, after a verification, computed from the measured rate.
  double total() const;
  // The cost of the whole run, in the currency of the price; 0: no price.
  double cost() const;
};

struct AdviceGoal {
  absl::optional<double> deadline;  // Seconds for the whole run.
  absl::optional<double> budget;    // The most that the whole run may cost, in the currency of the prices.
};

// The candidates to verify by brief runs, at most `most`: the predicted best of each synchronous strategy,
// then the best of each strategy in each use of the hosts, for half of the remaining places, then the
// candidates whose 90 % interval overlaps the interval of the predicted best. Asynchronous candidates are
// left out.
std::vector<int> ToVerify(const std::vector<Candidate>& candidates, const AdviceGoal& goal, int most);

// After a round of brief runs: the unverified candidates that would be faster than the fastest measured one,
// if their predictions were wrong by the same factor as those of the verified candidates of their strategy
// and use. At most `most`, the best first.
std::vector<int> ToVerifyNext(const std::vector<Candidate>& candidates, int most);

struct Advice {
  int best = -1;  // Index of the candidate that meets the goal best.
  // True if it meets deadline and budget. False: no candidate does, and this one comes nearest.
  bool met = true;
  // The best other candidate, if its time differs from that of `best` by less than 3 %, by less than runs of
  // one candidate differ or, without runs, by less than the error of the two predictions; -1 if there is
  // none.
  int tied = -1;
  int second = -1;              // The best candidate of another strategy; -1: there is none.
  bool second_differs = false;  // True if its time differs from that of `best` by more than `tied` allows.
  // Synchronous candidates that no other beats in both time and cost, by ascending time. If any cost is
  // known, candidates of unknown cost are left out.
  std::vector<int> pareto;
};
// Among candidates within 3 % of the best, chooses the one with the fewest processes. The best is the fastest
// within the budget; with a deadline, the cheapest within it (the fastest, unless all costs are known).
// Verified candidates precede all others, because the best of many predictions is optimistic. But if no
// verified candidate meets the goal and another is predicted to, that one is the best. `candidates` holds at
// least one synchronous candidate.
Advice Choose(const std::vector<Candidate>& candidates, const AdviceGoal& goal);

// Numbers of workers or servers to consider: all numbers up to twice `fine` (at least 1), then numbers in
// growing steps, and `most`.
std::vector<int> NumbersUpTo(int most, int fine = 8);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PREDICT_ADVICE_H_
