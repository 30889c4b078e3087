// Runs training steps one after the other. On a device that goes on alone,
//  - where the strategy's part of a step is stream work, a step is put on the stream as one graph, and while
//    it happens the step before is looked at: its loss, its finite flag, its record;
//  - where the host drives the exchange, forward and backward are one graph, each launch of which records
//    where ranges of gradients become final, and each step ends before the next begins.
// Elsewhere it is TrainStep.
//
//   for each step of a segment: pipeline.Run(step)
//   pipeline.Finish();                          // parameters are those of the last step
//
// Used by the training thread. Run waits for the step before, Finish for the last.
#ifndef TETHYS_WORKERS_STEP_PIPELINE_H_
#define TETHYS_WORKERS_STEP_PIPELINE_H_

#include <array>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/optional.h"
#include "runtime/device/device.h"
#include "workers/train_step.h"

namespace tethys {

// Invariants:
// 1. At most two steps are on the stream. They take turns in host memory and graphs: what step t + 2 writes,
//    step t has left.
// 2. A step whose gradients are not finite changes nothing, nor does any behind it. So parameters are those
//    before the step that its error names, although the next was put on the stream.
// 3. A record is ended for every step that was made, in order.
class StepPipeline {
 public:
  struct Options {
    Device& device;
    Stream& stream;                     // On which plan and strategy work.
    StreamedSteps* streamed = nullptr;  // Of the strategy's traits.
    int64_t ready_ranges = 0;           // Of the model.
    bool graphs = true;                 // Where the device captures them. All ranks of a job agree on it.
  };
  // All that is borrowed outlives the pipeline, which is to go before the strategy: its graphs hold the work
  // of the strategy's communicator.
  static absl::StatusOr<std::unique_ptr<StepPipeline>> Create(const TrainStepParts& parts,
                                                              const Options& options);

  // Errors of TrainStep, annotated with the step that they are of: this one or the one before.
  absl::Status Run(StepInfo step);

  // Every step is made when this returns.
  absl::Status Finish();

 private:
  StepPipeline(const TrainStepParts& parts, const Options& options) : parts_(parts), options_(options) {}
  absl::Status Allocate();
  absl::Status RunAhead(StepInfo step);
  absl::Status RunToEnd(const StepInfo& step);
  absl::Status PutAhead(const StepInfo& step);
  absl::Status PutStep(int turn);
  absl::Status PutGradients();
  absl::Status Put(int turn, absl::FunctionRef<absl::Status()> work);
  LossResult& Loss(int turn) { return static_cast<LossResult*>(losses_->data())[turn]; }

  const TrainStepParts parts_;
  const Options options_;

  std::vector<std::unique_ptr<Event>> ready_;   // By range: it is final. Where the host drives the exchange.
  std::unique_ptr<Buffer> losses_;              // [2] LossResult in pinned memory, by turn.
  std::array<std::unique_ptr<Event>, 2> done_;  // By turn: all of the step's work has happened.
  std::array<std::unique_ptr<Graph>, 2> graphs_;  // By turn; null until captured.
  absl::optional<StepInfo> under_way_;            // On the stream and not looked at.
  bool warm_ = false;                             // A step was put on the stream piece by piece.
};

}  // namespace tethys

#endif  // TETHYS_WORKERS_STEP_PIPELINE_H_
