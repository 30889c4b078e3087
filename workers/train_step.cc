#include "workers/train_step.h"

#include <cmath>

namespace tethys {

absl::Status TrainStep(const TrainStepParts& parts, const StepInfo& step) {
  Plan& plan = parts.plan;
  Strategy& strategy = parts.strategy;
  StepRecorder& recorder = parts.recorder;
  TETHYS_RETURN_IF_ERROR(recorder.BeginStep({.step = step.step,
                                             .epoch = step.epoch,
                                             .sample_begin = step.sample_begin,
                                             .samples = step.sample_count}));
  TETHYS_RETURN_IF_ERROR(parts.feed.Feed());
  recorder.Mark(Phase::kData);

  TETHYS_RETURN_IF_ERROR(strategy.BeginStep(step));
  TETHYS_RETURN_IF_ERROR(plan.TakeBatch());
  TETHYS_RETURN_IF_ERROR(plan.Forward());
  recorder.Mark(Phase::kForward);

  TETHYS_RETURN_IF_ERROR(plan.Backward([&](int64_t index, const Event& event) {
    recorder.BucketReady(static_cast<int>(index));
    return strategy.GradientReady(index, event);
  }));
  recorder.Mark(Phase::kBackward);
  TETHYS_RETURN_IF_ERROR(parts.feed.FeedAhead());

  const absl::StatusOr<StepOutcome> outcome = strategy.FinishStep();
  recorder.Mark(Phase::kExchange);

  // A worker whose own loss is not finite says so, rather than that some sum is not.
  TETHYS_ASSIGN_OR_RETURN(const LossResult loss, plan.Loss());
  if (!std::isfinite(loss.loss_sum)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the loss became ", loss.loss_sum,
        ": the learning rate may be too high or the data damaged; resume from the last checkpoint with "
        "--set=optimizer.learning_rate=..."));
  }
  if (!outcome.ok()) return outcome.status();
  recorder.EndStep({.loss_sum = loss.loss_sum,
                    .correct = static_cast<int64_t>(loss.correct),
                    .bytes_out = outcome->bytes_out,
                    .bytes_in = outcome->bytes_in,
                    .staleness = outcome->staleness,
                    .update_ns = outcome->update_ns});
  return absl::OkStatus();
}

}  // namespace tethys
