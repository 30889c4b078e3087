#include "workers/step_pipeline.h"

#include "runtime/device/profiler_range.h"

namespace tethys {
namespace {

absl::Status Named(const StepInfo& step, const absl::Status& status) {
  if (status.ok()) return status;
  return Annotate(status, absl::StrCat("step ", step.step, " of epoch ", step.epoch + 1));
}

}  // namespace

absl::StatusOr<std::unique_ptr<StepPipeline>> StepPipeline::Create(const TrainStepParts& parts,
                                                                   const Options& options) {
  std::unique_ptr<StepPipeline> pipeline(new StepPipeline(parts, options));
  if (options.streamed != nullptr && !options.device.reads_host_memory()) {
    TETHYS_RETURN_IF_ERROR(pipeline->Allocate());
  }
  return pipeline;
}

absl::Status StepPipeline::Allocate() {
  overlaps_ = true;
  TETHYS_ASSIGN_OR_RETURN(losses_, options_.device.Allocate(2 * sizeof(LossResult), MemoryKind::kPinnedHost));
  for (auto& done : done_) {
    TETHYS_ASSIGN_OR_RETURN(done, options_.device.CreateEvent());
  }
  return absl::OkStatus();
}

absl::Status StepPipeline::Run(StepInfo step) {
  if (!overlaps_) return Named(step, TrainStep(parts_, step));
  step.turn = under_way_.has_value() ? 1 - under_way_->turn : 0;
  const ProfilerRange range(options_.device, "step", step.step);
  const absl::Status put = Named(step, Put(step));
  const absl::Status before = Finish();
  TETHYS_RETURN_IF_ERROR(put);
  TETHYS_RETURN_IF_ERROR(before);
  under_way_ = step;
  return absl::OkStatus();
}

absl::Status StepPipeline::Finish() {
  if (!under_way_.has_value()) return absl::OkStatus();
  const StepInfo step = *under_way_;
  under_way_.reset();
  const absl::StatusOr<StepOutcome> outcome = options_.streamed->AwaitStep(step, *done_[step.turn]);
  return Named(step, EndTrainStep(parts_, step, outcome, Loss(step.turn)));
}

absl::Status StepPipeline::Put(const StepInfo& step) {
  TETHYS_RETURN_IF_ERROR(BeginTrainStep(parts_, step));
  // In the first step libraries set themselves up, which cannot be captured.
  if (warm_ && options_.graphs && options_.device.captures() && graphs_[step.turn] == nullptr) {
    TETHYS_RETURN_IF_ERROR(Capture(step.turn));
  }
  warm_ = true;
  TETHYS_RETURN_IF_ERROR(graphs_[step.turn] == nullptr ? PutWork(step.turn)
                                                       : graphs_[step.turn]->Launch(options_.stream));
  TETHYS_RETURN_IF_ERROR(done_[step.turn]->Record(options_.stream));
  return parts_.feed.FeedAhead();
}

absl::Status StepPipeline::PutWork(int turn) {
  TETHYS_RETURN_IF_ERROR(ComputeGradients(parts_));
  TETHYS_RETURN_IF_ERROR(
      parts_.phases.Run(Phase::kExchange, [&] { return options_.streamed->PutUpdate(turn); }));
  return parts_.plan.PutLoss(&Loss(turn));
}

// Falling back to single launches would be this rank's alone, but a reduction must be captured by all or
// none.
absl::Status StepPipeline::Capture(int turn) {
  auto graph = options_.device.Capture(options_.stream, [this, turn] { return PutWork(turn); });
  if (!graph.ok()) {
    return Annotate(graph.status(),
                    "it could not be captured as a graph (device { graph: false } in the job "
                    "goes without)");
  }
  graphs_[turn] = *std::move(graph);
  return absl::OkStatus();
}

}  // namespace tethys
