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
  if (!options.device.reads_host_memory()) TETHYS_RETURN_IF_ERROR(pipeline->Allocate());
  return pipeline;
}

absl::Status StepPipeline::Allocate() {
  Device& device = options_.device;
  if (options_.streamed != nullptr) {
    TETHYS_ASSIGN_OR_RETURN(losses_, device.Allocate(2 * sizeof(LossResult), MemoryKind::kPinnedHost));
    for (auto& done : done_) {
      TETHYS_ASSIGN_OR_RETURN(done, device.CreateEvent());
    }
  } else if (options_.graphs && device.captures()) {
    for (int64_t i = 0; i < options_.ready_ranges; ++i) {
      TETHYS_ASSIGN_OR_RETURN(ready_.emplace_back(), device.CreateTimedEvent());
    }
  }
  return absl::OkStatus();
}

absl::Status StepPipeline::Run(StepInfo step) {
  const ProfilerRange range(options_.device, "step", step.step);
  if (losses_ != nullptr) return RunAhead(step);
  return Named(step, ready_.empty() ? TrainStep(parts_, step) : RunToEnd(step));
}

absl::Status StepPipeline::RunAhead(StepInfo step) {
  step.turn = under_way_.has_value() ? 1 - under_way_->turn : 0;
  const absl::Status put = Named(step, PutAhead(step));
  TETHYS_RETURN_IF_ERROR(Finish());  // What failed there may be why this step could not be put.
  TETHYS_RETURN_IF_ERROR(put);
  under_way_ = step;
  return absl::OkStatus();
}

absl::Status StepPipeline::Finish() {
  if (!under_way_.has_value()) return absl::OkStatus();
  const StepInfo step = *under_way_;
  under_way_.reset();
  parts_.recorder.BeginExchange();
  const absl::StatusOr<StepOutcome> outcome = options_.streamed->AwaitStep(step, *done_[step.turn]);
  return Named(step, EndTrainStep(parts_, step, outcome, Loss(step.turn)));
}

absl::Status StepPipeline::RunToEnd(const StepInfo& step) {
  TETHYS_RETURN_IF_ERROR(BeginTrainStep(parts_, step));
  TETHYS_RETURN_IF_ERROR(Put(step.turn, [this] { return PutGradients(); }));
  for (size_t i = 0; i < ready_.size(); ++i) {
    TETHYS_RETURN_IF_ERROR(AnnounceGradients(parts_, static_cast<int64_t>(i), *ready_[i]));
  }
  return FinishTrainStep(parts_, step);
}

absl::Status StepPipeline::PutAhead(const StepInfo& step) {
  TETHYS_RETURN_IF_ERROR(BeginTrainStep(parts_, step));
  TETHYS_RETURN_IF_ERROR(Put(step.turn, [this, &step] { return PutStep(step.turn); }));
  TETHYS_RETURN_IF_ERROR(done_[step.turn]->Record(options_.stream));
  return parts_.feed.FeedAhead();
}

absl::Status StepPipeline::PutStep(int turn) {
  TETHYS_RETURN_IF_ERROR(ComputeGradients(
      parts_, [this](int64_t index, const Event& event) { return AnnounceGradients(parts_, index, event); }));
  TETHYS_RETURN_IF_ERROR(
      parts_.phases.Run(Phase::kExchange, [&] { return options_.streamed->PutUpdate(turn); }));
  return parts_.plan.PutLoss(&Loss(turn));
}

// Of a graph only timed events are of use outside.
absl::Status StepPipeline::PutGradients() {
  return ComputeGradients(
      parts_, [this](int64_t index, const Event&) { return ready_[index]->Record(options_.stream); });
}

// In the first step libraries set themselves up, which cannot be captured. A capture that fails is an error:
// falling back to single launches would be this rank's alone, but a reduction must be captured by all or
// none.
absl::Status StepPipeline::Put(int turn, absl::FunctionRef<absl::Status()> work) {
  if (warm_ && graphs_[turn] == nullptr && options_.graphs && options_.device.captures()) {
    absl::StatusOr<std::unique_ptr<Graph>> graph = options_.device.Capture(options_.stream, work);
    if (!graph.ok()) {
      return Annotate(
          graph.status(),
          "it could not be captured as a graph (device { graph: false } in the job goes without)");
    }
    graphs_[turn] = *std::move(graph);
  }
  warm_ = true;
  return graphs_[turn] == nullptr ? work() : graphs_[turn]->Launch(options_.stream);
}

}  // namespace tethys
