// Carries out the chief's orders on the replica of one worker: run a segment (a part of an epoch), evaluate,
// save. Created and used by the worker's training thread. FillBeat may be called by one other thread.
#ifndef TETHYS_WORKERS_TRAINER_H_
#define TETHYS_WORKERS_TRAINER_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "collectives/ring_communicator.h"
#include "proto/chief.pb.h"
#include "runtime/cluster/group_place.h"
#include "runtime/cluster/order_reader.h"
#include "runtime/cluster/task_options.h"
#include "runtime/cluster/task_session.h"
#include "runtime/data/dataset.h"
#include "runtime/data/epoch_order.h"
#include "workers/replica.h"
#include "workers/worker_course.h"

namespace tethys {

class Trainer {
 public:
  // Loads the data and builds the replica. `task`, `session` and `clock` must outlive the trainer.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(const TaskOptions& task, const proto::Setup& setup,
                                                         TaskSession& session, const Clock& clock);

  // Makes the worker a member of the group: attaches the strategy and sets the initial or restored
  // parameters. Called once, before the functions below. `listener` must outlive the trainer. Internal: the
  // group lacks this worker. Also has the errors of CreateStrategy, of Replica::Attach and of reading a
  // checkpoint.
  absl::Status JoinGroup(const proto::Group& group, RingListener& listener);

  // Makes the worker's steps of the segment that `course` is in. Has the errors of StepPipeline and of
  // OrderReader::Read.
  absl::Status RunSegment(WorkerCourse& course, OrderReader& orders);

  // Returns the worker's moving statistics, the whole arena.
  absl::StatusOr<std::vector<float>> ReadStatistics() { return replica_->ReadStatistics(); }

  absl::StatusOr<proto::EvaluationDone> Evaluate(const proto::Evaluate& order);

  // Streams this worker's part of the parameters and slots to the checkpoint that the chief is writing.
  absl::Status Save(const proto::Save& order);

  // Writes the worker's progress to `heartbeat`. Appends the records of the steps that finished since the
  // last FillBeat to `before`, the messages that are sent before the heartbeat.
  void FillBeat(proto::Heartbeat& heartbeat, std::vector<proto::FromTask>& before);

  int64_t steps() const { return steps_; }

  // Device::identity of the worker's GPU; empty without a GPU.
  std::string gpu() const { return replica_->device().identity(); }

  // The standardisation of the inputs.
  const InputScaling& scaling() const { return scaling_; }

  // How gradients are exchanged, for logs and reports.
  std::string exchange() const { return replica_->strategy()->Describe(); }

 private:
  Trainer(const TaskOptions& task, const proto::Setup& setup, TaskSession& session, const Clock& clock);
  absl::Status Build();
  absl::StatusOr<Datasets> OpenData();
  absl::Status CreateReplica(Model model);
  absl::Status TakeParameters();
  StepInfo StepOf(const BatchAssignment& batch, int64_t epoch, const EpochOrder& order) const;

  const TaskOptions& task_;
  const proto::Setup setup_;
  TaskSession& session_;
  const Clock& clock_;
  const Nanoseconds ready_before_;  // The time, by clock_, until which the strategy may wait for other tasks.
  const bool leased_;

  Datasets datasets_;
  absl::optional<EpochOrders> orders_;  // Created once the data are known to fit the plan.
  InputScaling scaling_;
  std::unique_ptr<Replica> replica_;
  WorkerPlace place_;  // Set by JoinGroup.
  // The number of the current step or, between steps, of the next step (BatchAssignment::step).
  std::atomic<int64_t> steps_{0};
};

}  // namespace tethys

#endif  // TETHYS_WORKERS_TRAINER_H_
