#include "runtime/chief/early_stopping.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tethys {

bool ContinueWatch(const proto::EarlyStopping* rule, proto::TrainingState& state) {
  if (!state.has_early_stopping()) return true;
  const proto::EarlyStoppingState& watched = state.early_stopping();
  // Earlier versions of Tethys did not record monitor and start_from_epoch. A state from such a version is
  // assumed to fit the rule.
  const bool same =
      rule != nullptr && (!watched.has_monitor() || (watched.monitor() == rule->monitor() &&
                                                     watched.start_from_epoch() == rule->start_from_epoch()));
  if (!same) state.clear_early_stopping();
  return same;
}

void WatchEpoch(const proto::EarlyStopping& rule, const proto::EpochResult& result,
                proto::EarlyStoppingState& state) {
  if (!result.validated() || result.epoch() < rule.start_from_epoch()) return;
  state.set_monitor(rule.monitor());
  state.set_start_from_epoch(rule.start_from_epoch());
  const bool more_is_better = rule.monitor() == proto::VALIDATION_ACCURACY;
  const double value = more_is_better ? result.validation_accuracy() : result.validation_loss();
  const bool improves =
      more_is_better ? value - rule.min_delta() > state.best() : value + rule.min_delta() < state.best();
  const bool is_number = !std::isnan(value);
  if (is_number && (improves || !state.has_best())) {
    state.set_best(value);
    state.set_epochs_without(0);
  } else {
    state.set_epochs_without(state.epochs_without() + 1);
  }
}

bool StopsEarly(const proto::EarlyStopping& rule, const proto::EarlyStoppingState& state) {
  return state.epochs_without() >= std::max<int64_t>(1, rule.patience());
}

}  // namespace tethys
