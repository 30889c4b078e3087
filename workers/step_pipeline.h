// Runs training steps in the same way under every strategy. A step takes a batch, runs forward and backward,
// announces each range of gradients, enqueues the end of the step, waits for this end and is recorded.
// StepPipeline::Enqueue and Finish show this order from top to bottom.
//
//   for each step of a segment: pipeline.Run(step)
//   pipeline.Finish();                          // parameters are those of the last step
//
// There are two modes on an asynchronous device:
//  - If the strategy's part of a step is stream work only, the whole step is one graph. While the graph runs,
//    the host waits for the previous step and records it.
//  - If the host drives the exchange, forward and backward are one graph. Each launch of the graph records
//    when ranges of gradients become final. Each step ends before the next begins.
//
// Used by the training thread. Run blocks until the previous step has ended, or its own step if steps do not
// overlap. Finish blocks until the last step has ended. A step allocates no heap memory.
#ifndef TETHYS_WORKERS_STEP_PIPELINE_H_
#define TETHYS_WORKERS_STEP_PIPELINE_H_

#include <array>
#include <cstdint>
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
// 1. At most two steps are in flight. They have different parities, and each parity has its own host memory
//    and graph. Step t + 2 uses the memory and the graph of step t, which has ended by then.
// 2. If a step's gradients are not finite and the strategy updates on this worker, that step and all steps
//    enqueued after it leave parameters and moving statistics unchanged. The error names the step whose
//    gradients are not finite.
// 3. Every completed step has one complete record, in order.
class StepPipeline {
 public:
  // The objects that a pipeline uses. All of them must outlive the pipeline.
  struct Parts {
    Plan& plan;
    Strategy& strategy;  // Captured graphs contain work of the strategy's communicator.
    StepRecorder& recorder;
    BatchFeed& feed;  // Delivers the batch of each step.
    StepPhases& phases;
  };
  struct Options {
    Device& device;
    Stream& stream;                    // Plan and strategy enqueue work on this stream.
    bool stream_only = false;          // The strategy's StrategyTraits::stream_only.
    bool stream_exchanges = false;     // The strategy's StrategyTraits::stream_exchanges.
    const int32_t* refused = nullptr;  // The strategy's StrategyTraits::refused.
    int64_t ready_ranges = 0;          // The number of ranges in the model's ready order.
    // If not 0: the offset of an arena of moving statistics (Plan::EnqueueStatistics) that also contains the
    // batch of computed(). The next step in flight would overwrite what EnqueueStatisticsOfComputed reads.
    int64_t statistics_ahead = 0;
    bool graphs = true;  // True: capture graphs if the device can. Must be equal on all ranks.
  };
  static absl::StatusOr<std::unique_ptr<StepPipeline>> Create(const Parts& parts, const Options& options);

  // Makes a step. FailedPrecondition: the loss or a gradient is not finite. Otherwise the errors of the
  // strategy, the device and the recorder. The errors name the step that failed: `step` or the previous step.
  absl::Status Run(StepInfo step);

  // Blocks until every step has ended and is recorded. Has the errors of Run.
  absl::Status Finish();

  // Halts the strategy after an error, or between two steps: makes certain which of the steps in flight are
  // made, and records these. Does nothing if the host drives the exchange, where no step is in flight then.
  // Has the errors of Strategy::AwaitEnd that are not due to the halt, and of Run.
  absl::Status Halt();
  // Halts the strategy, destroys all graphs and ends the work in flight (Strategy::EndWork).
  absl::Status EndWork();

  // The number of the last step that was made; nullopt: no step was.
  absl::optional<int64_t> made() const { return made_; }

  // The number of the step whose exchange failed after its gradients were computed; nullopt: there is none.
  // Other workers may have made this step. If the strategy exchanges on streams, known after Halt.
  absl::optional<int64_t> computed() const { return computed_; }
  // Enqueues the update of the moving statistics from the batch of step computed(). Requires that computed()
  // is not nullopt, and that the host drives the exchange.
  absl::Status EnqueueStatisticsOfComputed();

 private:
  StepPipeline(const Parts& parts, const Options& options)
      : parts_(parts),
        options_(options),
        overlaps_(options.stream_only && !options.device.reads_host_memory()) {}
  absl::Status Allocate();
  absl::Status Enqueue(const StepInfo& step);
  absl::Status TakeBatch(const StepInfo& step);
  absl::Status BeginStep(const StepInfo& step);
  absl::Status ComputeGradients(int parity);
  absl::Status Announce(int64_t range, const Event& ready);
  absl::Status AnnounceRecorded();
  absl::Status EnqueueEnd(const StepInfo& step);
  absl::Status Record(const StepInfo& step, const absl::StatusOr<StepOutcome>& outcome);
  absl::Status CheckLoss(int parity);
  absl::Status CauseOf(const absl::Status& failed, int parity);
  absl::Status Launch(int parity, absl::FunctionRef<absl::Status()> work);
  void SetNumbers(const StepInfo& step);
  // The StepNumbers of the micro-batches of a step of this parity.
  StepNumbers* Numbers(int parity) {
    return static_cast<StepNumbers*>(numbers_->data()) + parity * micro_batches();
  }
  LossResult* Losses(int parity) {
    return static_cast<LossResult*>(losses_->data()) + parity * micro_batches();
  }
  LossResult Loss(int parity);
  int64_t micro_batches() const { return parts_.plan.micro_batches(); }

  const Parts parts_;
  const Options options_;
  const bool overlaps_;  // True: the next step is enqueued before the host waits for the current step.

  // Per range of gradients, an event recorded when the range is final. Empty unless a graph computes the
  // ranges and the host announces them.
  std::vector<std::unique_ptr<Event>> ready_;
  std::unique_ptr<Buffer> losses_;   // LossResults in pinned memory, for each parity and micro-batch.
  std::unique_ptr<Buffer> numbers_;  // StepNumbers in pinned memory, for each parity and micro-batch.
  std::array<std::unique_ptr<Event>, 2> done_;    // Indexed by parity; recorded after all work of a step.
  std::array<std::unique_ptr<Graph>, 2> graphs_;  // Indexed by parity; null until captured.
  absl::optional<StepInfo> in_flight_;            // The enqueued step that is not awaited yet.
  // Steps whose outcome is not known after an error: a step that was awaited, and the step after it, whose
  // work was enqueued.
  absl::optional<StepInfo> failed_, launched_;
  absl::optional<int64_t> made_, computed_;  // See made() and computed().
  bool warm_ = false;                        // True once a step has run without a graph.
};

}  // namespace tethys

#endif  // TETHYS_WORKERS_STEP_PIPELINE_H_
