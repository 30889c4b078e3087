#include "workers/step_pipeline.h"

#include <algorithm>
#include <cmath>

#include "runtime/device/profiler_range.h"

namespace tethys {
namespace {

absl::Status Named(const StepInfo& step, const absl::Status& status) {
  if (status.ok()) return status;
  return Annotate(status, absl::StrCat("step ", step.step, " of epoch ", step.epoch + 1));
}

// The statistics_share (StepNumbers) of a whole batch. Outside lock step, all batches with samples have the
// same share.
double StatisticsShare(const StepInfo& step) {
  if (step.workers == 0) return 1;
  return static_cast<double>(step.workers) * static_cast<double>(step.sample_count) /
         static_cast<double>(step.global_sample_count);
}

}  // namespace

absl::StatusOr<std::unique_ptr<StepPipeline>> StepPipeline::Create(const Parts& parts,
                                                                   const Options& options) {
  std::unique_ptr<StepPipeline> pipeline(new StepPipeline(parts, options));
  TETHYS_RETURN_IF_ERROR(pipeline->Allocate());
  return pipeline;
}

absl::Status StepPipeline::Allocate() {
  Device& device = options_.device;
  TETHYS_ASSIGN_OR_RETURN(losses_,
                          device.Allocate(2 * micro_batches() * sizeof(LossResult), MemoryKind::kPinnedHost));
  TETHYS_ASSIGN_OR_RETURN(
      numbers_, device.Allocate(2 * micro_batches() * sizeof(StepNumbers), MemoryKind::kPinnedHost));
  for (auto& done : done_) {
    TETHYS_ASSIGN_OR_RETURN(done, device.CreateEvent());
  }
  if (options_.stream_only || !options_.graphs || !device.captures()) return absl::OkStatus();
  // Of the events that a graph records, only timed events can be used outside the graph.
  for (int64_t i = 0; i < options_.ready_ranges; ++i) {
    TETHYS_ASSIGN_OR_RETURN(ready_.emplace_back(), device.CreateTimedEvent());
  }
  return absl::OkStatus();
}

absl::Status StepPipeline::Run(StepInfo step) {
  const ProfilerRange range(options_.device, "step", step.step);
  step.parity = in_flight_.has_value() ? 1 - in_flight_->parity : 0;
  launched_.reset();
  const absl::Status enqueued = Named(step, Enqueue(step));
  // Finish ends the previous step. The error of Finish is returned first, because it may have caused the
  // error in `enqueued`.
  TETHYS_RETURN_IF_ERROR(Finish());
  TETHYS_RETURN_IF_ERROR(enqueued);
  launched_.reset();
  in_flight_ = step;
  return overlaps_ ? absl::OkStatus() : Finish();
}

absl::Status StepPipeline::Enqueue(const StepInfo& step) {
  computed_.reset();
  TETHYS_RETURN_IF_ERROR(TakeBatch(step));
  TETHYS_RETURN_IF_ERROR(BeginStep(step));
  if (options_.stream_only) {
    TETHYS_RETURN_IF_ERROR(Launch(step.parity, [&]() -> absl::Status {
      TETHYS_RETURN_IF_ERROR(ComputeGradients(step.parity));
      return EnqueueEnd(step);
    }));
    TETHYS_RETURN_IF_ERROR(done_[step.parity]->Record(options_.stream));
    launched_ = step;
    return parts_.feed.FeedAhead();
  }
  TETHYS_RETURN_IF_ERROR(Launch(step.parity, [&] { return ComputeGradients(step.parity); }));
  TETHYS_RETURN_IF_ERROR(AnnounceRecorded());
  computed_ = step.step;
  TETHYS_RETURN_IF_ERROR(parts_.feed.FeedAhead());
  parts_.recorder.BeginExchange();
  const absl::Status ended = EnqueueEnd(step);
  if (!ended.ok()) return CauseOf(ended, step.parity);
  return done_[step.parity]->Record(options_.stream);
}

absl::Status StepPipeline::TakeBatch(const StepInfo& step) {
  TETHYS_RETURN_IF_ERROR(parts_.recorder.BeginStep({.step = step.step,
                                                    .epoch = step.epoch,
                                                    .sample_begin = step.sample_begin,
                                                    .samples = step.sample_count}));
  parts_.phases.Begin(step);
  return parts_.phases.Run(Phase::kData, [&]() -> absl::Status {
    TETHYS_RETURN_IF_ERROR(parts_.feed.Feed());
    return parts_.plan.TakeBatch();
  });
}

// The strategy's BeginStep may wait for servers, so its time counts as exchange.
absl::Status StepPipeline::BeginStep(const StepInfo& step) {
  parts_.recorder.BeginExchange();
  TETHYS_RETURN_IF_ERROR(parts_.strategy.BeginStep(step));
  SetNumbers(step);
  parts_.recorder.Mark(Phase::kExchange);
  parts_.recorder.EndExchange();
  return absl::OkStatus();
}

void StepPipeline::SetNumbers(const StepInfo& step) {
  const int64_t rows = parts_.plan.rows() / micro_batches();
  const double share = StatisticsShare(step);
  for (int64_t i = 0; i < micro_batches(); ++i) {
    const int64_t samples = std::clamp<int64_t>(step.sample_count - i * rows, 0, rows);
    const double part =
        step.sample_count == 0 ? 1 : static_cast<double>(samples) / static_cast<double>(step.sample_count);
    Numbers(step.parity)[i] = {.first_sample = static_cast<uint64_t>(step.sample_begin + i * rows),
                               .statistics_share = static_cast<float>(share * part)};
  }
}

// When a graph captures ComputeGradients, only stream work is enqueued; AnnounceRecorded announces the ranges
// afterwards.
absl::Status StepPipeline::ComputeGradients(int parity) {
  TETHYS_RETURN_IF_ERROR(parts_.plan.EnqueueStepNumbers(Numbers(parity)));
  for (int64_t i = 0; i < micro_batches(); ++i) {
    TETHYS_RETURN_IF_ERROR(parts_.phases.Run(Phase::kForward, [&] { return parts_.plan.Forward(i); }));
    TETHYS_RETURN_IF_ERROR(parts_.phases.Run(Phase::kBackward, [&] {
      return parts_.plan.Backward([&](int64_t range, const Event& ready) {
        return ready_.empty() ? Announce(range, ready) : ready_[range]->Record(options_.stream);
      });
    }));
  }
  return absl::OkStatus();
}

absl::Status StepPipeline::Announce(int64_t range, const Event& ready) {
  parts_.recorder.BucketReady(static_cast<int>(range));
  return parts_.strategy.GradientReady(range, ready);
}

// Announces the ranges whose events are recorded by a graph.
absl::Status StepPipeline::AnnounceRecorded() {
  for (size_t i = 0; i < ready_.size(); ++i) {
    TETHYS_RETURN_IF_ERROR(Announce(static_cast<int64_t>(i), *ready_[i]));
  }
  return absl::OkStatus();
}

// A graph contains EnqueueEnd only in lock step, where every step changes the moving statistics.
absl::Status StepPipeline::EnqueueEnd(const StepInfo& step) {
  // Refused only if an earlier step was: the device has not decided yet whether it refuses this step.
  if (options_.statistics_ahead != 0) {
    TETHYS_RETURN_IF_ERROR(parts_.plan.EnqueueStatistics(options_.refused, options_.statistics_ahead));
  }
  TETHYS_RETURN_IF_ERROR(
      parts_.phases.Run(Phase::kExchange, [&] { return parts_.strategy.EnqueueEnd(step.parity); }));
  if (step.workers > 0 || step.sample_count > 0) {
    TETHYS_RETURN_IF_ERROR(parts_.plan.EnqueueStatistics(options_.refused));
  }
  computed_.reset();
  return parts_.plan.EnqueueLoss(Losses(step.parity));
}

absl::Status StepPipeline::EnqueueStatisticsOfComputed() {
  TETHYS_CHECK(computed_.has_value());
  computed_.reset();
  return parts_.plan.EnqueueStatistics(options_.refused);
}

LossResult StepPipeline::Loss(int parity) {
  LossResult sum;
  for (int64_t i = 0; i < micro_batches(); ++i) {
    sum.loss_sum += Losses(parity)[i].loss_sum;
    sum.correct += Losses(parity)[i].correct;
    sum.labels += Losses(parity)[i].labels;
  }
  return sum;
}

absl::Status StepPipeline::Finish() {
  if (!in_flight_.has_value()) return absl::OkStatus();
  const StepInfo step = *in_flight_;
  in_flight_.reset();
  parts_.recorder.BeginExchange();
  const absl::StatusOr<StepOutcome> outcome = parts_.strategy.AwaitEnd(step, *done_[step.parity]);
  if (!outcome.ok()) failed_ = step;
  return Named(step, Record(step, outcome));
}

absl::Status StepPipeline::Halt() {
  if (!options_.stream_exchanges) return absl::OkStatus();
  parts_.strategy.Halt();
  for (absl::optional<StepInfo>* const open : {&failed_, &in_flight_, &launched_}) {
    if (!open->has_value()) continue;
    const StepInfo step = **open;
    open->reset();
    // After a step that is not made, no step is.
    if (computed_.has_value()) continue;
    const absl::StatusOr<StepOutcome> outcome = parts_.strategy.AwaitEnd(step, *done_[step.parity]);
    if (outcome.ok()) {
      TETHYS_RETURN_IF_ERROR(Named(step, Record(step, outcome)));
    } else if (absl::IsAborted(outcome.status())) {
      computed_ = step.step;
    } else {
      return Named(step, outcome.status());
    }
  }
  return absl::OkStatus();
}

absl::Status StepPipeline::EndWork() {
  TETHYS_RETURN_IF_ERROR(Halt());
  graphs_ = {};
  return parts_.strategy.EndWork();
}

absl::Status StepPipeline::Record(const StepInfo& step, const absl::StatusOr<StepOutcome>& outcome) {
  TETHYS_RETURN_IF_ERROR(CheckLoss(step.parity));
  if (!outcome.ok()) return outcome.status();
  made_ = step.step;
  TETHYS_ASSIGN_OR_RETURN(const std::optional<DeviceTimes> on_device, parts_.phases.OnDevice(step));
  const LossResult loss = Loss(step.parity);
  parts_.recorder.EndStep({.loss_sum = loss.loss_sum,
                           .correct = static_cast<int64_t>(loss.correct),
                           .labels = static_cast<int64_t>(loss.labels),
                           .bytes_out = outcome->bytes_out,
                           .bytes_in = outcome->bytes_in,
                           .staleness = outcome->staleness,
                           .update_ns = outcome->update_ns,
                           .own_square = outcome->own_square,
                           .sum_square = outcome->sum_square,
                           .on_device = on_device});
  return absl::OkStatus();
}

// Reports a non-finite loss of this worker, because that explains more than an error about a non-finite sum
// or push.
absl::Status StepPipeline::CheckLoss(int parity) {
  const double loss_sum = Loss(parity).loss_sum;
  if (std::isfinite(loss_sum)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the loss became ", loss_sum, ": lower optimizer.learning_rate, or check the data"));
}

// Returns a non-finite loss as the cause of a failed exchange, otherwise `failed`. The loss is not read after
// a deadline, because the device may hang.
absl::Status StepPipeline::CauseOf(const absl::Status& failed, int parity) {
  if (absl::IsDeadlineExceeded(failed)) return failed;
  if (!parts_.plan.EnqueueLoss(Losses(parity)).ok() || !options_.stream.Synchronize().ok()) return failed;
  TETHYS_RETURN_IF_ERROR(CheckLoss(parity));
  return failed;
}

// The first step is not captured, because libraries initialise themselves in it. A failed capture is an
// error. This rank could not go on without a graph, because either all ranks or none must capture a
// reduction.
absl::Status StepPipeline::Launch(int parity, absl::FunctionRef<absl::Status()> work) {
  if (warm_ && graphs_[parity] == nullptr && options_.graphs && options_.device.captures()) {
    absl::StatusOr<std::unique_ptr<Graph>> graph = options_.device.Capture(options_.stream, work);
    if (!graph.ok()) {
      return Annotate(
          graph.status(),
          "the step could not be captured as a graph; tuning { graph: false } in the job turns graphs off");
    }
    graphs_[parity] = *std::move(graph);
  }
  warm_ = true;
  return graphs_[parity] == nullptr ? work() : graphs_[parity]->Launch(options_.stream);
}

}  // namespace tethys
