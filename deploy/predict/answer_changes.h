// Finds the value of a property of the machines, such as the rate of links, from which on another strategy
// would be the best answer of `tethys advise`. The model is evaluated at doubled and halved values, and by
// bisection between two values with different answers; two changes within one doubling are not seen. Pure;
// any thread.
#ifndef TETHYS_DEPLOY_PREDICT_ANSWER_CHANGES_H_
#define TETHYS_DEPLOY_PREDICT_ANSWER_CHANGES_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "deploy/predict/advice.h"
#include "runtime/base/status.h"

namespace tethys {

// ---- the search

// The present value of a property, and the range to search. Requires 0 < least <= now <= most; if `whole`,
// all three must be whole numbers.
struct PropertyRange {
  double now = 1;
  double least = 1;
  double most = 1;
  bool whole = false;  // True if only whole numbers are possible.
};

// A change of the best strategy: `value` is the value of the property, nearest to the present value, at which
// the best candidate has another strategy than the best candidate at the present value. `best` is the best
// candidate at `value`.
struct Turn {
  double value = 0;
  Candidate best;
};
struct PropertyTurns {
  PropertyRange range;
  // nullopt: no value from range.least to the present value changes the strategy.
  absl::optional<Turn> below;
  absl::optional<Turn> above;
};

// Returns the best candidate for a value of the property.
using BestAt = std::function<absl::StatusOr<Candidate>(double value)>;
// Finds the turns below and above the present value. A turn lies within 3 % of the value at which the best
// candidate first no longer has the strategy `now`; if only whole numbers are possible, the turn is the first
// such number. Fails as `best_at` does.
absl::StatusOr<PropertyTurns> FindTurns(const PropertyRange& range, const JobStrategy& now,
                                        const BestAt& best_at);

// For example "from 3.2 Gbit/s on, mirrored with 7 workers would be the best; no value down to 1 Mbit/s
// changes the strategy." `text` returns the text of a value. Values that need not be whole are rounded to two
// digits, away from the present value.
std::string TurnsText(const PropertyTurns& turns, const std::function<std::string(double)>& text);

// ---- the model

// The factor by which brief runs correct the predictions of each strategy: the highest predicted rate of the
// strategy's candidates, divided by their highest measured rate. Strategies without a brief run are absent.
using StrategyCorrections = std::map<JobStrategy, double>;
StrategyCorrections CorrectionsOf(const std::vector<Candidate>& candidates);

// The best synchronous candidate by the corrected predictions alone. FailedPrecondition: there is none.
absl::StatusOr<Candidate> BestByModel(const std::vector<Candidate>& candidates,
                                      const StrategyCorrections& corrections, const AdviceGoal& goal);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PREDICT_ANSWER_CHANGES_H_
