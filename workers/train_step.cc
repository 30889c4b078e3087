#include "workers/train_step.h"

#include <cmath>

namespace tethys {

absl::Status TrainStep(const TrainStepParts& parts, const StepInfo& step) {
  TETHYS_RETURN_IF_ERROR(BeginTrainStep(parts, step));
  TETHYS_RETURN_IF_ERROR(ComputeGradients(
      parts, [&](int64_t index, const Event& event) { return AnnounceGradients(parts, index, event); }));
  return FinishTrainStep(parts, step);
}

absl::Status BeginTrainStep(const TrainStepParts& parts, const StepInfo& step) {
  TETHYS_RETURN_IF_ERROR(parts.recorder.BeginStep({.step = step.step,
                                                   .epoch = step.epoch,
                                                   .sample_begin = step.sample_begin,
                                                   .samples = step.sample_count}));
  parts.phases.Begin(step);
  TETHYS_RETURN_IF_ERROR(parts.phases.Run(Phase::kData, [&]() -> absl::Status {
    TETHYS_RETURN_IF_ERROR(parts.feed.Feed());
    return parts.plan.TakeBatch();
  }));
  // It may wait for others, as FinishStep does.
  parts.recorder.BeginExchange();
  TETHYS_RETURN_IF_ERROR(parts.strategy.BeginStep(step));
  parts.recorder.Mark(Phase::kExchange);
  parts.recorder.EndExchange();
  return absl::OkStatus();
}

absl::Status ComputeGradients(const TrainStepParts& parts, Plan::ReadyCallback ready) {
  TETHYS_RETURN_IF_ERROR(parts.phases.Run(Phase::kForward, [&] { return parts.plan.Forward(); }));
  return parts.phases.Run(Phase::kBackward, [&] { return parts.plan.Backward(ready); });
}

absl::Status AnnounceGradients(const TrainStepParts& parts, int64_t index, const Event& event) {
  parts.recorder.BucketReady(static_cast<int>(index));
  return parts.strategy.GradientReady(index, event);
}

absl::Status FinishTrainStep(const TrainStepParts& parts, const StepInfo& step) {
  TETHYS_RETURN_IF_ERROR(parts.feed.FeedAhead());
  parts.recorder.BeginExchange();
  absl::StatusOr<StepOutcome> outcome = StepOutcome();
  TETHYS_RETURN_IF_ERROR(parts.phases.Run(Phase::kExchange, [&] {
    outcome = parts.strategy.FinishStep();
    return absl::OkStatus();
  }));
  TETHYS_ASSIGN_OR_RETURN(const LossResult loss, parts.plan.Loss());
  return EndTrainStep(parts, step, outcome, loss);
}

absl::Status EndTrainStep(const TrainStepParts& parts, const StepInfo& step,
                          const absl::StatusOr<StepOutcome>& outcome, const LossResult& loss) {
  // A worker whose own loss is not finite says so, rather than that some sum is not.
  if (!std::isfinite(loss.loss_sum)) {
    return absl::FailedPreconditionError(absl::StrCat("the loss became ", loss.loss_sum,
                                                      ": lower optimizer.learning_rate, or check the data"));
  }
  if (!outcome.ok()) return outcome.status();
  TETHYS_ASSIGN_OR_RETURN(const std::optional<DeviceTimes> on_device, parts.phases.OnDevice(step));
  parts.recorder.EndStep({.loss_sum = loss.loss_sum,
                          .correct = static_cast<int64_t>(loss.correct),
                          .bytes_out = outcome->bytes_out,
                          .bytes_in = outcome->bytes_in,
                          .staleness = outcome->staleness,
                          .update_ns = outcome->update_ns,
                          .on_device = on_device});
  return absl::OkStatus();
}

}  // namespace tethys
