// Carries out the chief's orders on the replica of one worker: run a segment, evaluate, save. Made and used
// by the worker's training thread; FillBeat may be called by one other thread.
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
#include "workers/batch_sequence.h"
#include "workers/replica.h"

namespace tethys {

class Trainer {
 public:
  // Loads the data, builds the replica, attaches the strategy and takes the starting parameters.
  // Everything borrowed outlives the trainer.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(const TaskOptions& task, const proto::Setup& setup,
                                                         TaskSession& session, RingListener& listener,
                                                         const Clock& clock);

  // Makes all of this worker's steps of a segment; returns how many. Errors of StepPipeline.
  absl::StatusOr<int64_t> RunSegment(const proto::Run& run);

  absl::StatusOr<EvaluationSums> Evaluate(const proto::Evaluate& order);

  // Streams this worker's part of parameters and slots into the open checkpoint.
  absl::Status Save(const proto::Save& order);

  // Progress and finished steps since the last call.
  void FillBeat(proto::Heartbeat& heartbeat, std::vector<proto::FromTask>& before);

  int64_t steps() const { return steps_; }

  // Device::identity of the GPU that it computes on; empty: none.
  std::string gpu() const { return replica_->device().identity(); }

  // Standardisation of its inputs.
  const InputScaling& scaling() const { return scaling_; }

  // How gradients are exchanged, for logs and reports.
  std::string exchange() const { return replica_->strategy()->Describe(); }

 private:
  Trainer(const TaskOptions& task, const proto::Setup& setup, TaskSession& session, const Clock& clock);
  absl::Status Build(RingListener& listener);
  absl::Status CreateReplica(Model model);
  absl::Status TakeParameters();

  const TaskOptions& task_;
  const proto::Setup setup_;
  TaskSession& session_;
  const Clock& clock_;
  const bool leased_;
  const bool in_rounds_;  // Stale-synchronous: leases come in rounds.

  Datasets datasets_;
  EpochOrders orders_;
  InputScaling scaling_;
  std::unique_ptr<Replica> replica_;
  // Asynchronous training: this worker's number of steps; stale-synchronous: its clock; else the global step.
  std::atomic<int64_t> steps_{0};
};

}  // namespace tethys

#endif  // TETHYS_WORKERS_TRAINER_H_
