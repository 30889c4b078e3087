// The chief's protocol: it takes messages from tasks and the current time, and returns actions. Pure: no
// clock, no files, no transport. Thread-compatible: the chief's process calls it under a lock.
//
// JobCourse decides the order of the stages. Saving, evaluating and pausing are separate state machines: the
// controller starts them, passes them their events, and continues with their results.
//
// The first loss or failure of a task ends the job, unless the task is a worker and SurvivesWorkerLoss is
// true for the job. If workers train on leased batches (asynchronously and stale-synchronously), the job then
// continues without the lost worker: servers refuse the worker's frames (the worker is fenced), its leases go
// to other workers, and a replacement may join. Otherwise the workers that are left form a new group
// (FormsNewGroups).
//
// The state of the controller can be saved as a message between any two events. A controller restored from
// the message answers all further events as the original would:
//
//   controller.Save(state);
//   JobController::Restore(plan, state)   -> a controller that continues from `state`
#ifndef TETHYS_RUNTIME_CHIEF_JOB_CONTROLLER_H_
#define TETHYS_RUNTIME_CHIEF_JOB_CONTROLLER_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/chief.pb.h"
#include "proto/chief_state.pb.h"
#include "proto/member.pb.h"
#include "proto/plan.pb.h"
#include "proto/summary.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/chief/checkpoint_coordinator.h"
#include "runtime/chief/chief_actions.h"
#include "runtime/chief/evaluation_coordinator.h"
#include "runtime/chief/group_membership.h"
#include "runtime/chief/held_records.h"
#include "runtime/chief/job_course.h"
#include "runtime/chief/job_failure.h"
#include "runtime/chief/pause_coordinator.h"
#include "runtime/chief/pulse_book.h"
#include "runtime/chief/quality_sums.h"
#include "runtime/chief/roster.h"
#include "runtime/chief/running_segment.h"
#include "runtime/chief/segment_planner.h"
#include "runtime/chief/server_membership.h"
#include "runtime/chief/statistics_book.h"
#include "runtime/chief/task_losses.h"

namespace tethys {

// Invariants:
//  1. The job trains only while every task is a member, except workers whose loss the job has survived.
//  Parameters change only within a segment (part of an epoch between two barriers), and a segment ends only
//  after the leases of lost workers are settled.
//  2. At most one save is open, and none during a segment.
//  3. A sample counts as used when the chief has received the record of the step in which a worker used the
// sample.
//  4. The result of an evaluation covers every sample of its split once. If a worker is lost before it has
//  answered, the whole evaluation is repeated by the workers that take part at that time.
class JobController {
 public:
  // `state`: the starting state, which lists the job's earlier attempts. `restore`: whether the state comes
  // from a checkpoint. `statistics`: the moving statistics in that state.
  JobController(proto::JobPlan plan, proto::TrainingState state, bool restore, StatisticsBook statistics,
                Nanoseconds now);

  // `overload` returns a remark on the load of the chief's machine for messages about silent tasks, or an
  // empty text. The state omits it.
  void ExplainSilence(std::function<std::string()> overload) { overload_ = std::move(overload); }

  // Writes the controller's state into an empty message. The message omits the plan. It also omits the step
  // durations and resource samples since the last pulse, because they are used only for the next pulse
  // (proto::PulseState).
  void Save(proto::ChiefState& state) const;
  // Recreates the controller whose Save wrote `state`; `plan` must be that controller's plan.
  // InvalidArgument: no controller of this plan can have written `state`.
  static absl::StatusOr<std::unique_ptr<JobController>> Restore(proto::JobPlan plan,
                                                                const proto::ChiefState& state);

  // Requires from now on that the workers' data have the standardisation that the checkpoint's model was
  // trained with. Called before the first session, if the state comes from a checkpoint. `saved` is the
  // checkpoint's model, `path` its directory, which errors name.
  void RequireScaling(const proto::ModelDescription& saved, const std::string& path);

  // Decides whether to admit a session of the task. AlreadyExists: the task has joined, and `incarnation` is
  // not a later incarnation of a worker whose loss the job survives. Aborted: the job takes no more members.
  // InvalidArgument: the job has no such task.
  absl::Status Admit(TaskId task, uint32_t incarnation, Nanoseconds now);
  // Handles a message from this incarnation of the task. Messages from a lost incarnation have no effect.
  void OnMessage(TaskId task, uint32_t incarnation, const proto::FromTask& message, Nanoseconds now,
                 Actions& actions);
  // Handles the end of this incarnation's session.
  void OnGone(TaskId task, uint32_t incarnation, Nanoseconds now, Actions& actions);
  void OnTick(Nanoseconds now, Actions& actions);
  // Handles the user's interrupt. Training stops at the first state that all workers can reach. This state is
  // saved, and the job ends as Cancelled. Before training begins, nothing is saved. Further calls have no
  // effect.
  void OnInterrupt(Nanoseconds now, Actions& actions);
  // A new process goes on as the job's chief.
  void OnTookOver(Nanoseconds now, Actions& actions);

  void SaveOpened(const absl::Status& status, Nanoseconds now, Actions& actions);
  void SaveCommitted(const absl::Status& status, const std::string& directory, Nanoseconds now,
                     Actions& actions);

  // Fills the controller's part of the summary; the timing collector fills the rest.
  void FillSummary(Nanoseconds now, proto::RunSummary& summary) const;
  const JobCourse& course() const { return course_; }  // The stage that the job has reached.
  // The standardisation of the data; known once a worker is ready.
  const proto::InputScaling& scaling() const { return plan_.scaling(); }
  double training_seconds() const { return own_.training_seconds(); }  // In this attempt.
  // The number of completed epochs, plus the completed fraction of the current epoch.
  double epochs_done() const;
  // The task's current incarnation; orders to the task are sent to it.
  uint32_t incarnation(TaskId task) const { return roster_.at(task).member.incarnation(); }

  // Adds resource samples of the chief's own process and machine to the next pulse.
  void AddChiefSamples(const std::string& host, const PulseBook::Samples& samples);

 private:
  // One handler per kind of message.
  void OnJoin(TaskId id, uint32_t incarnation, const proto::Join& join, Nanoseconds now, Actions& actions);
  void OnReady(TaskId id, const proto::Ready& ready, Nanoseconds now, Actions& actions);
  void OnHeartbeat(TaskId id, const proto::Heartbeat& heartbeat, Nanoseconds now, Actions& actions);
  void OnSteps(TaskId id, const proto::StepRecords& records, Nanoseconds now, Actions& actions);
  void OnLeaseRequest(TaskId id, const proto::LeaseRequest& request, Actions& actions);
  void OnRunDone(TaskId id, const proto::RunDone& done, Nanoseconds now, Actions& actions);
  void OnEvaluationDone(TaskId id, const proto::EvaluationDone& done, Nanoseconds now, Actions& actions);
  void OnSaveDone(TaskId id, const proto::SaveDone& done, Nanoseconds now, Actions& actions);
  static absl::Status CheckRecord(const proto::StepRecord& record);
  void OnApplied(TaskId id, const proto::AppliedPushes& applied, Actions& actions);
  void OnFenced(TaskId server, const proto::Fenced& fenced, Nanoseconds now, Actions& actions);
  void OnFormed(TaskId id, const proto::Formed& formed, Nanoseconds now, Actions& actions);
  void OnHalted(TaskId id, const proto::Halted& halted, Nanoseconds now, Actions& actions);
  void OnPausing(TaskId id, const proto::Pausing& pausing, Nanoseconds now, Actions& actions);
  void OnFailure(TaskId id, const proto::Failure& failure, Nanoseconds now);

  // Functions for members: how tasks join, are set up, are lost and are replaced.
  bool Concerns(TaskId id, uint32_t incarnation, const proto::FromTask& message) const;
  absl::Status NoteScaling(TaskId id, const proto::InputScaling& scaling);
  void SetUpAll(proto::Role role, Nanoseconds now, Actions& actions);
  void SetUp(const std::vector<TaskId>& ids, Nanoseconds now, Actions& actions);
  bool Survives(TaskId id) const;  // True if the job survives the task's loss.
  void OnLost(TaskId id, const absl::Status& reason, Nanoseconds now, Actions& actions);
  void Lose(TaskId id, const std::string& reason, Nanoseconds now, Actions& actions);
  void LoseFailed(Nanoseconds now, Actions& actions);  // Loses workers that have reported a failure.
  void CheckMembers(Nanoseconds now, Actions& actions);
  std::string LossText(TaskId id, const std::string& reason) const;

  // Functions that form new groups of workers (job_controller_group.cc).
  void HoldSteps(TaskId id, const proto::StepRecords& records, Nanoseconds now, Actions& actions);
  absl::Status Count(const std::vector<CountedStep>& steps, int64_t* unrecorded, Actions& actions);
  void WriteCountedPushes(Actions& actions);
  int64_t LastStep() const;
  bool MustRegroup() const;
  bool LeavesStage(Nanoseconds now, Actions& actions);
  void Regroup(Nanoseconds now, Actions& actions);
  void Proceed(Nanoseconds now, Actions& actions);
  void GroupFormed(Nanoseconds now, Actions& actions);
  struct Patience {
    Nanoseconds time;
    std::string field;  // The field of the job that sets the time.
  };
  // The longest silence of a task that does not count as its loss.
  Patience PatienceFor(TaskId id) const;
  std::vector<TaskId> GivenUp(const std::vector<TaskId>& silent, Nanoseconds now) const;
  bool SparedWithMost(TaskId id, const std::vector<TaskId>& silent, Nanoseconds wait, Nanoseconds now) const;

  // Functions for groups of servers (job_controller_servers.cc).
  void RegroupServers(Nanoseconds now, Actions& actions);
  void ServersFormed(Nanoseconds now, Actions& actions);

  // Functions for the stages of the job. Advance leaves the current phase once the job waits for no more
  // tasks in this phase.
  void Advance(Nanoseconds now, Actions& actions);
  void StartTraining(Nanoseconds now, Actions& actions);
  void Continue(Nanoseconds now, Actions& actions);  // Begins the stage that JobCourse says is next.
  void RunSegment(Nanoseconds now, Actions& actions);
  void SendRuns(Actions& actions);
  void SendRun(TaskId id, Actions& actions);
  void FinishSegment(Nanoseconds now, Actions& actions);
  void BeginSave(Nanoseconds now, Actions& actions);
  void FinishSave(Nanoseconds now, Actions& actions);
  void Evaluate(JobPhase phase, Nanoseconds now, Actions& actions);  // `phase`: kValidate or kTest.
  void FinishEvaluation(Nanoseconds now, Actions& actions);
  void JudgeEpoch(Actions& actions);
  absl::Status EndStatus() const;  // The result of a job that was neither interrupted nor failed.
  absl::Status InterruptedStatus() const;
  void Stop(absl::Status status, TaskId culprit, Nanoseconds now, Actions& actions);
  void Fail(const absl::Status& status, TaskId culprit, Nanoseconds now);
  int64_t NextOrderId();
  double SecondsSinceStart(Nanoseconds now) const { return ToSeconds(now - own_.started_ns()); }
  absl::Status RestoreParts(const proto::ChiefState& state);
  absl::Status CheckStages() const;  // Checks that the stages of all parts fit together.

  static void Send(TaskId id, proto::ToTask order, Actions& actions);
  void ReportProgress(Nanoseconds now, Actions& actions);
  void ReportEpoch(Actions& actions);
  void ReportPulse(Nanoseconds now, Actions& actions);
  // The record of this attempt up to `now`.
  proto::Attempt OwnAttempt(Nanoseconds now) const;

  proto::JobPlan plan_;
  const SegmentPlanner planner_;
  const Nanoseconds start_timeout_;
  std::function<std::string()> overload_ = [] { return std::string(); };

  // The state that belongs to none of the parts below. It is kept as a message, so that Save cannot forget a
  // value.
  proto::ControllerState own_;

  JobCourse course_;
  Roster roster_;
  JobFailure failure_;

  // State of the training.
  proto::TrainingState state_;  // The state at the last barrier, which lists the earlier attempts.
  RunningSegment running_;
  StatisticsBook statistics_;
  TaskLosses losses_;
  PulseBook pulses_;
  QualitySums epoch_sums_;

  // State of the groups of workers, or of servers.
  GroupMembership group_;
  HeldRecords held_;
  ServerMembership servers_;

  // State of saves, evaluations and pauses.
  CheckpointCoordinator checkpoints_;
  EvaluationCoordinator evaluation_;
  PauseCoordinator pause_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_JOB_CONTROLLER_H_
