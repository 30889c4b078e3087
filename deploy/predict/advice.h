// Chooses among the ways in which one job could run: which strategy, how many workers and servers. All
// candidates keep the job's global batch. Asynchronous and stale-synchronous candidates are listed apart,
// because they change the updates, and the number of epochs to an accuracy is not predicted. Pure; any
// thread.
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
  // The seconds of prediction.total that steps take; 0: all seconds after the start-up.
  double step_seconds = 0;
  // The samples per second of each brief run; empty: the candidate is not verified.
  std::vector<double> measured = {};
  // How the candidate uses hosts that differ (HostUse in host_uses.h); empty: as the host file says.
  std::string use = {};
  int machines = 1;  // The number of machines on which workers and servers run.

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

// The least relative difference at which the times of two candidates count as different. It is 3 % or, if
// that is larger, the uncertainty of the times. If both candidates have brief runs, the measured rates of
// each candidate have a range, and the uncertainty is half of the wider range. Otherwise the errors of the
// two candidates are added as independent errors, although both predictions follow from one calibration.
double LeastDifference(const Candidate& a, const Candidate& b);

// The candidates to verify by brief runs, at most `most`. First come the predicted best of each synchronous
// strategy. Half of the places that are left go to the best candidate of each pair of a strategy and a way to
// use the hosts (Candidate::use). Then follow the candidates whose 90 % interval overlaps the interval of the
// predicted best. Asynchronous candidates are left out.
std::vector<int> ToVerify(const std::vector<Candidate>& candidates, const AdviceGoal& goal, int most);

// The candidates to verify after a round of brief runs, at most `most`, the best first. The predicted rate of
// each unverified candidate is corrected by the median ratio of measured to predicted rate of the verified
// candidates with the same strategy and use. The result has the candidates whose corrected rate exceeds the
// rate of the fastest verified candidate.
std::vector<int> ToVerifyNext(const std::vector<Candidate>& candidates, int most);

struct Advice {
  int best = -1;  // Index of the candidate that meets the goal best.
  // True if `best` meets deadline and budget. False: no candidate meets both, and `best` comes nearest.
  bool met = true;
  // The second best candidate, if it meets the goal and its time exceeds the time of `best` by less than
  // LeastDifference. If candidates are ranked by cost, their costs are compared instead. -1: there is none.
  int tied = -1;
  int second = -1;  // The best candidate of another strategy; -1: there is none.
  // True if the times of `second` and `best` differ by at least LeastDifference.
  bool second_differs = false;
  // Synchronous candidates that no other candidate beats in both time and cost, by ascending time. If any
  // cost is known, candidates of unknown cost are left out.
  std::vector<int> pareto;
};
// Chooses the candidate with the fewest processes among the candidates within 3 % of the best. Without a
// deadline, the best is the fastest candidate within the budget. With a deadline, the best is the cheapest
// candidate that meets the deadline or, unless all costs are known, the fastest. Verified candidates precede
// all others, because the best of many predictions is optimistic. But if no verified candidate meets the goal
// and an unverified candidate is predicted to meet it, this unverified candidate is the best. `candidates`
// must contain a synchronous candidate.
Advice Choose(const std::vector<Candidate>& candidates, const AdviceGoal& goal);

// Numbers of workers or servers to consider: all numbers up to twice `fine` (which must be at least 1), then
// numbers in growing steps, and `most`.
std::vector<int> NumbersUpTo(int most, int fine = 8);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PREDICT_ADVICE_H_
