// One rank of a job: model, device, parameters, plans, batches, records and, while it trains, a strategy. A
// replica has neither a session nor a chief. Worker processes, `tethys evaluate`, benchmarks and programs
// that embed the library (examples/embed/) create replicas. A process may hold several.
//
//   auto replica = *Replica::Create(model, std::move(device), clock, {.rows = 128, .train = dataset});
//   replica->Attach(strategy);                        // any strategy; another may follow after Detach
//   replica->FillInitialValues(seed);                 // or FillPart, from a checkpoint
//   for each batch:
//     replica->loader().Announce(order, slice);
//     replica->Step(step);
//   replica->Finish();                                // parameters are now those of the last step
//
// Created and used by the device's thread. Only recorder().Drain may be called by another thread, and only if
// Options::records_wait is set. Signals that arrive on the device's thread while it computes are handled
// afterwards (runtime/base/blocked_signals.h).
#ifndef TETHYS_WORKERS_REPLICA_H_
#define TETHYS_WORKERS_REPLICA_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/optional.h"
#include "runtime/base/clock.h"
#include "runtime/data/dataset.h"
#include "runtime/device/device.h"
#include "runtime/nn/model.h"
#include "runtime/nn/plan.h"
#include "runtime/replica_update.h"
#include "runtime/strategy.h"
#include "runtime/telemetry/step_recorder.h"
#include "workers/batch_feed.h"
#include "workers/evaluator.h"
#include "workers/measured_sums.h"
#include "workers/step_pipeline.h"

namespace tethys {

// Invariants:
// 1. Parameters and activations live as long as the replica. The training plan, feed and pipeline live from
//    Attach to Detach, because the gradients may lie in memory of the strategy.
// 2. Detach first waits for the stream, where a step that failed may still run, unless that step could wait
//    for other workers. It destroys the pipeline before the strategy, whose communicator the pipeline's
//    graphs use. It destroys the strategy before the plan, because the strategy's work may still use the
//    plan's memory.
class Replica {
 public:
  struct Options {
    int index = 0;                // The worker's index, which is the rank in its step records.
    int64_t rows = 0;             // Rows of a training batch.
    int64_t micro_batches = 1;    // PlanOptions::micro_batches of the training plan.
    int64_t evaluation_rows = 0;  // Rows of the plan that evaluates; 0: Evaluate is not called.
    uint64_t seed = 0;            // Seed of dropout. Must be equal on all ranks of a job.
    int64_t groups = 1;           // PlanOptions::groups of the training plan.
    bool recomputes = false;      // PlanOptions::recomputes of the training plan.
    InputScaling scaling = {};
    // If null, the replica has no loader, steps or records, and the owner drives plan() and strategy()
    // itself.
    std::shared_ptr<const Dataset> train = nullptr;
    BatchFeed::Options feed = {};
    bool graphs = true;  // True: capture steps as graphs if the device can. Must be equal on all ranks.
    // Called when records fill half of the recorder's ring, so that another thread drains the ring. Null:
    // there is no such thread, and the recorder keeps only the newest records.
    std::function<void()> records_wait = nullptr;
    // Called after each batch of an evaluation; its error ends the evaluation. Null: not called.
    std::function<absl::Status()> may_evaluate = nullptr;
  };

  // Allocates the parameters, set to zero, and the activations of both plans, and compiles the plan that
  // evaluates. `clock` must outlive the replica. ResourceExhausted: the device lacks the memory.
  // InvalidArgument: `train` has samples of another size than the model's inputs, or of another type than
  // `scaling`.
  static absl::StatusOr<std::unique_ptr<Replica>> Create(Model model, std::unique_ptr<Device> device,
                                                         const Clock& clock, Options options);
  ~Replica();

  // Makes the update of all variables on this replica's device, for strategies that keep parameters on the
  // device.
  absl::StatusOr<ReplicaUpdate> MakeUpdate(const proto::Optimizer& config,
                                           const LearningRateSchedule& schedule);

  // Sets the number of rows in training batches from the next Attach on. Requires that no strategy is
  // attached and that the replica does not evaluate. ResourceExhausted: the device lacks the memory; another
  // number of rows has to be set before Attach.
  absl::Status SetRows(int64_t rows);

  // Like SetRows, for a replica that evaluates. If the device lacks the memory, batches are computed in more
  // micro-batches. Keeps memory that is large enough.
  absl::Status FitRows(int64_t rows);

  // Compiles the training plan and prepares the strategy. Requires that no strategy is attached. Blocks like
  // Strategy::Prepare. After an error no strategy is attached. `warm_up`: computes the gradients of an empty
  // batch, so that the first step takes no longer than later steps.
  absl::Status Attach(std::unique_ptr<Strategy> strategy, bool warm_up = true);
  // Destroys the strategy with its slots, unless the slots outlive it (OptimizerSlots), and forgets a step
  // that has failed. The parameters stay. Announced batches that were not trained on are dropped. No-op
  // without a strategy.
  void Detach();

  // loader(), Step, Finish and plan() require an attached strategy.
  BatchLoader& loader() { return feed_->loader(); }
  // Step trains on the oldest announced batch. Step and Finish block and fail like StepPipeline::Run and
  // Finish.
  absl::Status Step(const StepInfo& step) { return pipeline_->Run(step); }
  absl::Status Finish() { return pipeline_->Finish(); }

  // made_step() is the last step that was made since Attach. computed_step() is the step whose exchange
  // failed after its gradients were computed. Both are as in StepPipeline.
  absl::optional<int64_t> made_step() const {
    return pipeline_ == nullptr ? absl::nullopt : pipeline_->made();
  }
  absl::optional<int64_t> computed_step() const {
    return pipeline_ == nullptr ? absl::nullopt : pipeline_->computed();
  }
  // Like StepPipeline::Halt and StepPipeline::EndWork; no-ops without a strategy. Detach may follow EndWork.
  absl::Status HaltSteps();
  absl::Status EndWork();
  // True if the attached strategy exchanges on streams, which wait for other workers.
  bool exchanges_on_streams() const { return strategy_ != nullptr && traits_.stream_exchanges; }

  // The moving statistics after computed_step(), which must exist. The replica itself keeps the statistics
  // from before that step. Called at most once for a step; if the strategy exchanges on streams, after
  // EndWork.
  absl::StatusOr<std::vector<float>> StatisticsOfComputedStep();

  // Returns sums over samples [slice.begin, slice.end) of `dataset`, which must have samples like `train`
  // (otherwise InvalidArgument). First calls Refresh if a strategy is attached. Requires that no step is in
  // flight. `statistics` is an arena of moving statistics in host memory; empty: the replica's own.
  absl::StatusOr<proto::EvaluationDone> Evaluate(std::shared_ptr<const Dataset> dataset, Slice slice,
                                                 absl::Span<const float> statistics = {});

  // Calls `use` with the outputs of samples [slice.begin, slice.end) of `dataset`, as tethys::Predict does.
  // Otherwise like Evaluate.
  absl::Status Predict(std::shared_ptr<const Dataset> dataset, Slice slice, UseOutputs use,
                       absl::Span<const float> statistics = {});

  // Does the work of Evaluate and Predict in one pass.
  absl::StatusOr<proto::EvaluationDone> EvaluateOutputs(std::shared_ptr<const Dataset> dataset, Slice slice,
                                                        UseOutputs use,
                                                        absl::Span<const float> statistics = {});

  // Sets the parameters and the moving statistics by their initializers, to the same values on every rank.
  absl::Status FillInitialValues(uint64_t seed);

  // The state that this replica holds. Part 0 is the parameters; the other parts are the attached strategy's
  // slots, in the optimizer's order. Each part is device memory of arena_size() elements.
  std::vector<absl::Span<float>> Parts();
  // Calls `fill` with host memory for a whole part, or for a range of it. When the function returns, the part
  // holds the values that `fill` wrote there. Requires a range within the arena.
  absl::Status FillPart(size_t part, absl::FunctionRef<absl::Status(absl::Span<float>)> fill);
  absl::Status FillRange(size_t part, Range range, absl::FunctionRef<absl::Status(absl::Span<float>)> fill);
  // Calls `use` with the elements of a range, after all work on the stream. Requires a range within the
  // arena.
  absl::Status ReadPart(size_t part, Range range,
                        absl::FunctionRef<absl::Status(absl::Span<const float>)> use);

  // The replica's own moving statistics: an arena of statistics_size() elements. InvalidArgument: `values`
  // has another size.
  absl::Status SetStatistics(absl::Span<const float> values);
  absl::StatusOr<std::vector<float>> ReadStatistics();
  int64_t statistics_size() const { return model_.statistics().arena_size(); }

  const Model& model() const { return model_; }
  int64_t arena_size() const { return model_.variables().arena_size(); }
  Device& device() { return *device_; }
  Stream& stream() { return *stream_; }
  Plan& plan() { return *plan_; }
  const std::unique_ptr<Strategy>& strategy() const { return strategy_; }
  StepRecorder& recorder() { return *recorder_; }

 private:
  Replica(Model model, std::unique_ptr<Device> device, const Clock& clock, Options options);
  absl::Status Allocate();
  // InvalidArgument: the plans would misread samples of this form.
  absl::Status CheckReadable(const SampleSpec& spec) const;
  absl::Status Prepare(bool warm_up);
  // Computes the gradients of an empty batch, so that libraries load and generate their code, and memory is
  // touched, before the first step. No other worker takes part.
  absl::Status WarmUp();
  absl::Status CreatePipeline();
  absl::StatusOr<float*> GradientSums();
  // The reducer with which layers sum over the workers; null if the strategy has none.
  StreamReducer* LayerSums();
  absl::StatusOr<std::unique_ptr<Buffer>> AllocateFloats(int64_t elements);
  absl::Status CompileEvaluation();
  // Checks the samples of an evaluation, and brings parameters and statistics up to date for it.
  absl::Status PrepareEvaluation(const Dataset& dataset, absl::Span<const float> statistics);
  absl::Status CopyStatistics(absl::Span<const float> values, Buffer& to);
  // Lets the statistics ahead begin with the same values as the statistics.
  absl::Status AlignStatisticsAhead();
  absl::StatusOr<std::vector<float>> ReadStatisticsAt(int64_t begin);
  absl::Status AllocateActivations();

  const Model model_;
  Options options_;                    // Constant, except `rows` and `micro_batches`.
  const int64_t least_micro_batches_;  // Options::micro_batches at construction.
  int64_t most_rows_ = 0;              // The rows of a micro-batch for which activations_ is allocated.
  const Clock& clock_;
  const std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Buffer> parameters_;
  // Two arenas: the moving statistics that training changes and, if the strategy exchanges on streams, the
  // same statistics with the batch of the first step that was refused (StepPipeline::Options).
  std::unique_ptr<Buffer> statistics_;
  // The moving statistics of the evaluation.
  std::unique_ptr<Buffer> evaluated_statistics_;
  std::unique_ptr<Buffer> activations_;    // Activations of both plans.
  std::unique_ptr<Plan> evaluation_plan_;  // Null from a change of activations_ until the next evaluation.
  std::unique_ptr<StepRecorder> recorder_;
  std::unique_ptr<StepPhases> phases_;
  // Null as long as every attached strategy has itself allocated memory for gradients.
  std::unique_ptr<Buffer> gradients_;

  // The objects below live from Attach to Detach.
  std::unique_ptr<Plan> plan_;
  std::unique_ptr<BatchFeed> feed_;
  std::unique_ptr<Strategy> strategy_;
  StrategyTraits traits_;
  // Null if the strategy has no worker_sums(), or the replica no recorder.
  std::unique_ptr<MeasuredSums> layer_sums_;
  std::unique_ptr<StepPipeline> pipeline_;
};

}  // namespace tethys

#endif  // TETHYS_WORKERS_REPLICA_H_
