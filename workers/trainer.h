// What a worker does for the chief: holds model, data and strategy of one rank and carries out the chief's
// orders. Made and used by the worker's training thread; FillBeat may be called by one other thread.
#ifndef TETHYS_WORKERS_TRAINER_H_
#define TETHYS_WORKERS_TRAINER_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "collectives/ring_communicator.h"
#include "proto/chief.pb.h"
#include "runtime/cluster/task_options.h"
#include "runtime/cluster/task_session.h"
#include "runtime/data/dataset.h"
#include "runtime/data/sharding.h"
#include "runtime/nn/plan.h"
#include "runtime/strategy.h"
#include "runtime/telemetry/step_recorder.h"
#include "workers/batch_feed.h"
#include "workers/batch_sequence.h"
#include "workers/evaluator.h"
#include "workers/step_pipeline.h"

namespace tethys {

class Trainer {
 public:
  // Loads the data, builds model and plans, connects the strategy and takes the starting parameters.
  // Everything borrowed outlives the trainer.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(const TaskOptions& task, const proto::Setup& setup,
                                                         TaskSession& session, RingListener& listener,
                                                         const Clock& clock);

  // All of this worker's steps of a segment; returns how many. Errors of StepPipeline.
  absl::StatusOr<int64_t> RunSegment(const proto::Run& run);

  absl::StatusOr<EvaluationSums> Evaluate(const proto::Evaluate& order);

  // Streams this worker's part of parameters and slots into the open checkpoint.
  absl::Status Save(const proto::Save& order);

  // Progress and finished steps since the last call.
  void FillBeat(proto::Heartbeat& heartbeat, std::vector<proto::FromTask>& before);

  int64_t steps() const { return steps_; }

  // The GPU it computes on, as Device::identity; empty: none.
  std::string gpu() const { return device_->identity(); }

  // What its inputs are standardised by.
  const InputScaling& scaling() const { return scaling_; }

  // How gradients are exchanged, for people.
  std::string exchange() const { return strategy_->Describe(); }

 private:
  Trainer(const TaskOptions& task, const proto::Setup& setup, TaskSession& session, const Clock& clock);
  absl::Status Build(RingListener& listener);
  absl::Status AllocateGradients();
  absl::Status BuildPlans();
  absl::Status PrepareStrategy();
  absl::Status TakeParameters();
  int64_t ArenaSize() const { return model_->variables().arena_size(); }

  const TaskOptions& task_;
  const proto::Setup setup_;
  TaskSession& session_;
  const Clock& clock_;
  const bool leased_;
  const bool in_rounds_;  // Leased so, stale-synchronously.

  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  absl::optional<Model> model_;
  Datasets datasets_;
  EpochOrders orders_;
  InputScaling scaling_;
  std::unique_ptr<Buffer> parameters_, gradients_;
  float* gradient_sums_ = nullptr;         // The strategy's memory, or gradients_.
  std::unique_ptr<Plan> plan_;             // Rows: this worker's batch.
  std::unique_ptr<Plan> evaluation_plan_;  // More rows: nothing is exchanged in between.
  std::unique_ptr<BatchFeed> feed_;
  std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<StepRecorder> recorder_;
  std::unique_ptr<StepPhases> phases_;
  std::unique_ptr<StepPipeline> pipeline_;  // Goes before the strategy.
  std::atomic<int64_t> steps_{
      0};  // Asynchronously: this worker's; stale-synchronously: its clock; else the global step.
};

}  // namespace tethys

#endif  // TETHYS_WORKERS_TRAINER_H_
