#include "workers/train_step.h"

#include <cmath>

namespace tethys {

absl::Status TrainStep(const TrainStepParts& parts, const StepInfo& step) {
  TETHYS_RETURN_IF_ERROR(BeginTrainStep(parts, step));
  TETHYS_RETURN_IF_ERROR(ComputeGradients(parts));
  TETHYS_RETURN_IF_ERROR(parts.feed.FeedAhead());
  const absl::StatusOr<StepOutcome> outcome = parts.strategy.FinishStep();
  parts.recorder.Mark(Phase::kExchange);
  TETHYS_ASSIGN_OR_RETURN(const LossResult loss, parts.plan.Loss());
  return EndTrainStep(parts, outcome, loss);
}

absl::Status BeginTrainStep(const TrainStepParts& parts, const StepInfo& step) {
  TETHYS_RETURN_IF_ERROR(parts.recorder.BeginStep({.step = step.step,
                                                   .epoch = step.epoch,
                                                   .sample_begin = step.sample_begin,
                                                   .samples = step.sample_count}));
  TETHYS_RETURN_IF_ERROR(parts.feed.Feed());
  parts.recorder.Mark(Phase::kData);
  TETHYS_RETURN_IF_ERROR(parts.strategy.BeginStep(step));
  return parts.plan.TakeBatch();
}

absl::Status ComputeGradients(const TrainStepParts& parts) {
  TETHYS_RETURN_IF_ERROR(parts.plan.Forward());
  parts.recorder.Mark(Phase::kForward);
  TETHYS_RETURN_IF_ERROR(parts.plan.Backward([&](int64_t index, const Event& event) {
    parts.recorder.BucketReady(static_cast<int>(index));
    return parts.strategy.GradientReady(index, event);
  }));
  parts.recorder.Mark(Phase::kBackward);
  return absl::OkStatus();
}

absl::Status EndTrainStep(const TrainStepParts& parts, const absl::StatusOr<StepOutcome>& outcome,
                          const LossResult& loss) {
  // A worker whose own loss is not finite says so, rather than that some sum is not.
  if (!std::isfinite(loss.loss_sum)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the loss became ", loss.loss_sum,
        ": the learning rate may be too high or the data damaged; resume from the last checkpoint with "
        "--set=optimizer.learning_rate=..."));
  }
  if (!outcome.ok()) return outcome.status();
  parts.recorder.EndStep({.loss_sum = loss.loss_sum,
                          .correct = static_cast<int64_t>(loss.correct),
                          .bytes_out = outcome->bytes_out,
                          .bytes_in = outcome->bytes_in,
                          .staleness = outcome->staleness,
                          .update_ns = outcome->update_ns});
  return absl::OkStatus();
}

}  // namespace tethys
