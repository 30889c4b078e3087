#include "runtime/chief/best_epoch.h"

#include <cmath>

namespace tethys {

bool NoteIfBest(proto::Monitor monitor, const proto::EpochResult& result, proto::TrainingState& state) {
  const bool by_accuracy = monitor == proto::VALIDATION_ACCURACY;
  const double value = by_accuracy ? result.validation_accuracy() : result.validation_loss();
  if (!result.validated() || std::isnan(value)) return false;
  const proto::BestEpoch& best = state.best();
  const bool better = by_accuracy ? value > best.validation_accuracy() : value < best.validation_loss();
  if (state.has_best() && !better) return false;
  state.mutable_best()->set_step(result.step());
  state.mutable_best()->set_epoch(result.epoch());
  state.mutable_best()->set_validation_loss(result.validation_loss());
  state.mutable_best()->set_validation_accuracy(result.validation_accuracy());
  return true;
}

}  // namespace tethys
