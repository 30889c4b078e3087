// Carries out the chief's orders on the replica of one worker: join a group of workers, run a segment (a part
// of an epoch), evaluate, save. Created and used by the worker's training thread. FillBeat may be called by
// one other thread.
//
// The trainer of a job that forms new groups (FormsNewGroups) outlives its groups. When an exchange fails, or
// a Halt interrupts the exchange, the function that carries out the current order returns an error, and
// trouble() says that the trainer has left its group. The trainer's parameters and slots are then those of
// applied() steps, and the trainer waits for JoinGroup. In a job with servers, the parameters are of no use
// until JoinGroup has fetched them from the servers.
#ifndef TETHYS_WORKERS_TRAINER_H_
#define TETHYS_WORKERS_TRAINER_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/optional.h"
#include "collectives/ring_communicator.h"
#include "proto/chief.pb.h"
#include "runtime/base/interruption.h"
#include "runtime/cluster/group_place.h"
#include "runtime/cluster/order_reader.h"
#include "runtime/cluster/task_life.h"
#include "runtime/cluster/task_options.h"
#include "runtime/cluster/task_session.h"
#include "runtime/data/dataset.h"
#include "runtime/data/epoch_order.h"
#include "runtime/replica_update.h"
#include "workers/device_factory.h"
#include "workers/group_interruption.h"
#include "workers/replica.h"
#include "workers/state_copy.h"
#include "workers/worker_course.h"

namespace tethys {

// Invariants, from the first JoinGroup that returned OK on:
//  1. Without servers: parameters and slots are those of applied() steps, also after errors of the group.
//  2. A copy of another worker's state takes effect as a whole, once it is complete.
class Trainer {
 public:
  // Loads the data and builds the replica. `task`, `session`, `interruption` and `clock` must outlive the
  // trainer. `interruption` is raised by Halt. Calls `make_device` once.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(const TaskOptions& task, const proto::Setup& setup,
                                                         TaskSession& session,
                                                         GroupInterruption& interruption, const Clock& clock,
                                                         const MakeDevice& make_device = CreateWorkerDevice);

  // Makes the worker a member of the group, after it has left any earlier group: attaches the strategy, and
  // takes parameters if the worker has none or if its parameters are behind. In the first group of a job,
  // these are the parameters that Setup specifies. In later groups, the group's source or the servers send
  // the parameters. Called before the functions below. `listener` must outlive the trainer. Sets copy_ns and
  // exchange of `formed`. Internal: the group lacks this worker, or the worker has the parameters of another
  // step than the chief says. Also has the errors of CreateStrategy, of Replica::Attach, of CopyState and of
  // reading a checkpoint.
  absl::Status JoinGroup(const proto::Form& form, RingListener& listener, proto::Formed& formed);

  // Makes the worker's steps of the segment that `course` is in. Has the errors of StepPipeline and of
  // OrderReader::Read. Aborted: Halt has come.
  absl::Status RunSegment(WorkerCourse& course, OrderReader& orders);

  // Says what the last error of a member function means for the worker.
  TaskLife::Trouble trouble() const { return trouble_; }
  // Sets the field `applied` of `halted` and, in the first call after kBroken, `suspect` and `reason`.
  void FillHalted(proto::Halted& halted);
  // The number of global steps in parameters and slots; nullopt: the worker has no parameters yet.
  absl::optional<int64_t> applied() const { return applied_; }

  // Returns the worker's moving statistics, the whole arena.
  absl::StatusOr<std::vector<float>> ReadStatistics() { return replica_->ReadStatistics(); }

  absl::StatusOr<proto::EvaluationDone> Evaluate(const proto::Evaluate& order);

  // Streams this worker's part of the parameters and slots to the checkpoint that the chief is writing.
  absl::Status Save(const proto::Save& order);

  // Writes the worker's progress to `heartbeat`. Appends the records of the steps that finished since the
  // last FillBeat to `before`, the messages that are sent before the heartbeat.
  void FillBeat(proto::Heartbeat& heartbeat, std::vector<proto::FromTask>& before);

  int64_t steps() const { return steps_; }

  // True if the trainer must not be destroyed, but ends with the process: its GPU may hang or wait for other
  // workers, and ending the work of the GPU could give them wrong sums (Strategy::EndWork). `failed`: the
  // worker has failed.
  bool ends_with_process(bool failed) const {
    return outlives_groups_ && !replica_->device().reads_host_memory() && (failed || halted_);
  }

  // Device::identity of the worker's GPU; empty without a GPU.
  std::string gpu() const { return replica_->device().identity(); }

  // The standardisation of the inputs.
  const InputScaling& scaling() const { return scaling_; }

 private:
  Trainer(const TaskOptions& task, const proto::Setup& setup, TaskSession& session,
          GroupInterruption& interruption, const Clock& clock);
  absl::Status Build(const MakeDevice& make_device);
  absl::StatusOr<Datasets> OpenData();
  absl::Status CreateReplica(Model model, const MakeDevice& make_device);
  absl::Status TakeParameters();
  absl::Status CheckForm(const proto::Form& form) const;
  // Ends the membership in the earlier group. `behind`: other workers have made a step more than this one.
  absl::Status LeaveGroup(bool behind);
  // Connects to the group and attaches its strategy. Fills `staged` if this worker is behind.
  absl::Status Connect(const proto::Form& form, RingListener& listener, const StateCopy& copy,
                       StagedState& staged, Nanoseconds& copy_ns);
  // Copies the state between workers, over the connections of the group.
  absl::Status Copy(Communicator& group, const StateCopy& copy, StagedState& staged);
  // Replaces the worker's state by the copy. With servers, replaces only what the servers do not keep, such
  // as moving statistics.
  absl::Status Commit(int64_t step, const StagedState& staged);
  absl::Status CommitStatistics(const StagedState& staged);
  // Sets trouble_ to what the error `failed` means, and returns `failed`. `may_be_broken`: `failed` may be
  // the failure of an exchange.
  absl::Status Left(const absl::Status& failed, bool may_be_broken);
  // Does the work of Left for an error of a step or of an evaluation.
  absl::Status Failed(const absl::Status& failed);
  // Sets applied_ to the number of steps that the replica has made. HaltSteps first makes certain which steps
  // in flight the device makes, because the worker leaves its group.
  void CountSteps();
  absl::Status HaltSteps();
  // Aborted: the chief has halted the group, or `halted` is true.
  absl::Status MayGoOn(bool halted);
  // Calls `work`, which makes a step or finishes the segment, and returns its error.
  absl::Status InGroup(absl::FunctionRef<absl::Status()> work);
  StepInfo StepOf(const BatchAssignment& batch, int64_t epoch, const EpochOrder& order) const;

  const TaskOptions& task_;
  const proto::Setup setup_;
  TaskSession& session_;
  GroupInterruption& interruption_;
  const Clock& clock_;
  // The time, by clock_, until which the strategy of the first group may wait for other tasks.
  const Nanoseconds ready_before_;
  const bool leased_;
  const bool on_servers_;  // Servers keep the parameters.
  const bool outlives_groups_;

  Datasets datasets_;
  absl::optional<EpochOrders> orders_;  // Created once the data are known to fit the plan.
  InputScaling scaling_;
  const std::shared_ptr<OptimizerSlots> slots_ = std::make_shared<OptimizerSlots>();
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<Interruption::Watch> watch_;  // Interrupts the strategy; null while there is no strategy.

  // Set by JoinGroup.
  proto::Group group_;
  WorkerPlace place_;

  bool halted_ = false;  // True after HaltSteps, until the worker joins a group.
  bool warm_ = false;    // True once a strategy was attached with a warm-up.
  absl::optional<int64_t> applied_;
  // The moving statistics after step *applied_. This worker has computed that step, but its exchange failed,
  // and other workers have made the step. Empty unless this worker is behind.
  absl::optional<std::vector<float>> statistics_ahead_;

  TaskLife::Trouble trouble_ = TaskLife::Trouble::kFailure;
  absl::Status broken_;  // The error of the exchange that failed, after kBroken.
  // The number of the current step or, between steps, of the next step (BatchAssignment::step).
  std::atomic<int64_t> steps_{0};
};

}  // namespace tethys

#endif  // TETHYS_WORKERS_TRAINER_H_
