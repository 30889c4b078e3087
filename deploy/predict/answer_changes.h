// The value of a property of the machines, such as the rate of links, from which another strategy would be
// the best answer of `tethys advise`. The model is asked at doubled and halved values, and by bisection
// between two that disagree; two changes within one doubling are not seen. Pure; any thread.
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

// The present value of a property, and those to ask for. Requires 0 < least <= now <= most, in whole numbers
// if `whole`.
struct PropertyRange {
  double now = 1;
  double least = 1;
  double most = 1;
  bool whole = false;  // Only whole numbers have a meaning.
};

// From `value` on, away from the present one, `best` is the best, and it has another strategy.
struct Turn {
  double value = 0;
  Candidate best;
};
struct PropertyTurns {
  PropertyRange range;
  absl::optional<Turn> below;  // nullopt: nothing down to range.least changes the strategy.
  absl::optional<Turn> above;
};

// The best candidate where the property has this value.
using BestAt = std::function<absl::StatusOr<Candidate>(double value)>;
// A turn lies within 3 % of where the best is no longer of the strategy `now`; of whole numbers, it is the
// first one. Fails as `best_at`.
absl::StatusOr<PropertyTurns> FindTurns(const PropertyRange& range, const JobStrategy& now,
                                        const BestAt& best_at);

// "from 3.2 Gbit/s on, mirrored with 7 workers would be the best; nothing down to 1 Mbit/s changes the
// strategy." `text` writes a value. Values that need not be whole are rounded to two digits, away from the
// present one.
std::string TurnsText(const PropertyTurns& turns, const std::function<std::string(double)>& text);

// ---- the model

// The correction of the predictions of each strategy by brief runs: the rate of its predicted best over the
// best measured one. Strategies without a brief run are absent.
using StrategyCorrections = std::map<JobStrategy, double>;
StrategyCorrections CorrectionsOf(const std::vector<Candidate>& candidates);

// The best of the synchronous candidates by their corrected predictions alone. FailedPrecondition: there is
// none.
absl::StatusOr<Candidate> BestByModel(const std::vector<Candidate>& candidates,
                                      const StrategyCorrections& corrections, const AdviceGoal& goal);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PREDICT_ANSWER_CHANGES_H_
