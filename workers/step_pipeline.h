// Makes training steps, one after the other, the same under every strategy: takes the batch, runs forward and
// backward with each range of gradients announced, enqueues the step's end, awaits it and records the step
// (StepPipeline::Enqueue and Finish, to be read from top to bottom).
//
//   for each step of a segment: pipeline.Run(step)
//   pipeline.Finish();                          // parameters are those of the last step
//
// There are two modes on an asynchronous device:
//  - If the strategy's part of a step is stream work only, the whole step is one graph, and while it runs the
//    host awaits and records the step before.
//  - If the host drives the exchange, forward and backward are one graph, each launch of which records where
//    ranges of gradients become final, and each step ends before the next begins.
//
// Used by the training thread. Run blocks for the step before, or for its own if steps do not overlap; Finish
// for the last. No heap memory is allocated in a step.
#ifndef TETHYS_WORKERS_STEP_PIPELINE_H_
#define TETHYS_WORKERS_STEP_PIPELINE_H_

#include <array>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/optional.h"
#include "runtime/device/device.h"
#include "runtime/nn/plan.h"
#include "runtime/strategy.h"
#include "runtime/telemetry/step_recorder.h"
#include "workers/batch_feed.h"
#include "workers/step_phases.h"

namespace tethys {

// Invariants:
// 1. At most two steps are in flight. They differ in their parity, and each parity has host memory and a
//    graph of its own: step t + 2 writes to those that step t no longer uses.
// 2. If a step's gradients are not finite, and the strategy updates on this worker, the step and any enqueued
//    behind it leave parameters as they were before the step that the error names.
// 3. A record is ended for every step that was made, in order.
class StepPipeline {
 public:
  // All is borrowed and outlives the pipeline.
  struct Parts {
    Plan& plan;
    Strategy& strategy;  // Outlives the pipeline also because graphs hold the work of its communicator.
    StepRecorder& recorder;
    BatchFeed& feed;  // Its next batch is the step's.
    StepPhases& phases;
  };
  struct Options {
    Device& device;
    Stream& stream;            // Plan and strategy enqueue work on it.
    bool stream_only = false;  // StrategyTraits::stream_only.
    int64_t ready_ranges = 0;  // Ranges of the model's ready order.
    bool graphs = true;        // Captured if the device can. All ranks of a job agree on it.
  };
  static absl::StatusOr<std::unique_ptr<StepPipeline>> Create(const Parts& parts, const Options& options);

  // FailedPrecondition: the loss or a gradient is not finite. Otherwise the errors of the strategy, the
  // device and the recorder. They name the step that failed: this one or the one before.
  absl::Status Run(StepInfo step);

  // Every step is made and recorded when this returns. Errors as of Run.
  absl::Status Finish();

 private:
  StepPipeline(const Parts& parts, const Options& options)
      : parts_(parts),
        options_(options),
        overlaps_(options.stream_only && !options.device.reads_host_memory()) {}
  absl::Status Allocate();
  absl::Status Enqueue(const StepInfo& step);
  absl::Status TakeBatch(const StepInfo& step);
  absl::Status BeginStep(const StepInfo& step);
  absl::Status ComputeGradients();
  absl::Status Announce(int64_t range, const Event& ready);
  absl::Status AnnounceRecorded();
  absl::Status EnqueueEnd(int parity);
  absl::Status Record(const StepInfo& step, const absl::StatusOr<StepOutcome>& outcome);
  absl::Status CheckLoss(int parity);
  absl::Status CauseOf(const absl::Status& failed, int parity);
  absl::Status Launch(int parity, absl::FunctionRef<absl::Status()> work);
  LossResult& Loss(int parity) { return static_cast<LossResult*>(losses_->data())[parity]; }

  const Parts parts_;
  const Options options_;
  const bool overlaps_;  // The next step is enqueued before this one is awaited.

  // By range: recorded when it is final. Empty unless a graph computes the ranges that the host announces.
  std::vector<std::unique_ptr<Event>> ready_;
  std::unique_ptr<Buffer> losses_;                // [2] LossResult in pinned memory, by parity.
  std::array<std::unique_ptr<Event>, 2> done_;    // By parity: recorded behind all work of the step.
  std::array<std::unique_ptr<Graph>, 2> graphs_;  // By parity; null until captured.
  absl::optional<StepInfo> in_flight_;            // Enqueued and not awaited.
  bool warm_ = false;                             // A step was enqueued piece by piece.
};

}  // namespace tethys

#endif  // TETHYS_WORKERS_STEP_PIPELINE_H_
