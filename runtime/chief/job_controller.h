// The chief's protocol: what has to happen next, given what the tasks say and what time it is. Pure: no
// clock, no files, no transport; belongs to the chief's loop. Events in, actions out:
//
//   gather -> set servers up -> set workers up -> [ run a segment -> save? -> evaluate? ]* -> test -> save ->
//   stop
//
// The first loss or failure of a task ends the job; but where workers train on leases (asynchronously and
// stale-synchronously), a lost worker is fenced and its leases given to others, and a replacement may join.
// Failures that merely follow from another ("my peer
// vanished") are held back for a moment, so that the cause is reported and not the echo.
#ifndef TETHYS_RUNTIME_CHIEF_JOB_CONTROLLER_H_
#define TETHYS_RUNTIME_CHIEF_JOB_CONTROLLER_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/variant.h"
#include "proto/chief.pb.h"
#include "proto/summary.pb.h"
#include "proto/telemetry.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/chief/lease_book.h"
#include "runtime/chief/ledger.h"
#include "runtime/chief/segment_planner.h"

namespace tethys {

struct TaskId {
  proto::Role role = proto::ROLE_UNKNOWN;
  int index = 0;
  auto operator<=>(const TaskId&) const = default;
};

// ---- actions, to be carried out in order
struct SendOrder {
  TaskId task;
  proto::ToTask order;
};
struct WriteJournal {
  std::string line;
};
struct Report {
  proto::ProgressEvent event;
};
struct KeepRecords {  // Into steps.csv and the timing analysis.
  proto::StepRecords records;
  Nanoseconds clock_offset = 0;
};
struct KeepResources {  // Into resources.csv and the summary.
  TaskId task;
  std::string host;
  google::protobuf::RepeatedPtrField<proto::ResourceSample> samples;
  Nanoseconds clock_offset = 0;
};
struct OpenSave {  // Then call SaveOpened.
  int64_t id = 0;
  proto::TrainingState state;
};
struct CommitSave {};  // The open one, with the state it was opened with. Then call SaveCommitted.
struct AbandonSave {};
struct EndJob {  // After everything before it; nothing follows.
  absl::Status status;
  TaskId culprit;  // ROLE_UNKNOWN: nobody in particular.
};
using Action = absl::variant<SendOrder, WriteJournal, Report, KeepRecords, KeepResources, OpenSave,
                             CommitSave, AbandonSave, EndJob>;
using Actions = std::vector<Action>;

// Invariants:
//  1. Training goes on only while every task is a member, but for lost workers that hold leases; parameters
//  change only within a segment, and a segment does not end before the leases of the lost are settled.
//  2. At most one save is open, and none during a segment.
//  3. A sample counts as used when its worker's record of the step has arrived.
class JobController {
 public:
  // `state`: where to start; `restore`: it comes from a checkpoint.
  JobController(proto::JobPlan plan, proto::TrainingState state, bool restore, Nanoseconds now);

  // A session asks to be admitted. AlreadyExists: that task has joined, and this is no later life of a worker
  // that may be lost; InvalidArgument: the job has no such task.
  absl::Status Admit(TaskId task, uint32_t incarnation, Nanoseconds now);
  // Of that incarnation; those of one that is lost have no effect.
  void OnMessage(TaskId task, uint32_t incarnation, const proto::FromTask& message, Nanoseconds now,
                 Actions& actions);
  // The session ended.
  void OnGone(TaskId task, uint32_t incarnation, Nanoseconds now, Actions& actions);
  void OnTick(Nanoseconds now, Actions& actions);

  void SaveOpened(const absl::Status& status, Nanoseconds now, Actions& actions);
  void SaveCommitted(const absl::Status& status, const std::string& directory, Nanoseconds now,
                     Actions& actions);

  // What the controller knows of the run; the rest comes from the timing collector.
  void FillSummary(Nanoseconds now, proto::RunSummary& summary) const;
  double training_seconds() const { return training_seconds_here_; }  // Of this attempt.

 private:
  enum class Phase { kGather, kServerSetup, kWorkerSetup, kTrain, kSave, kEvaluate, kStopping, kEnded };

  struct TaskState {
    proto::Member member;
    bool joined = false;
    bool ready = false;
    bool gone = false;
    bool answered = false;  // To the order under way.
    Nanoseconds last_heard = 0;
    proto::Heartbeat heartbeat;
    int64_t setup_ns = 0;
    int64_t step = 0;
    // Of workers that hold leases:
    bool lost = false;       // Not waited for; nothing it says is heard.
    bool late = false;       // A replacement that does not take part yet.
    uint32_t candidate = 0;  // Incarnation admitted to take its place, when it joins.
    proto::Fence fence;      // The last one sent,
    int fences_open = 0;     // and how many servers have not confirmed it.
    Nanoseconds lost_at = 0;
  };
  struct Sums {
    double loss = 0;
    int64_t correct = 0;
    int64_t samples = 0;
    proto::Quality Quality() const;
  };
  struct PendingFailure {
    absl::Status status;
    TaskId culprit;
    bool echo = false;  // Looks like the consequence of another failure.
    Nanoseconds deadline = 0;
  };

  // One per message.
  void OnJoin(TaskId id, uint32_t incarnation, const proto::Join& join, Nanoseconds now, Actions& actions);
  void OnReady(TaskId id, const proto::Ready& ready, Nanoseconds now, Actions& actions);
  void OnHeartbeat(TaskId id, const proto::Heartbeat& heartbeat, Nanoseconds now, Actions& actions);
  void OnSteps(TaskId id, const proto::StepRecords& records, Nanoseconds now, Actions& actions);
  void OnLeaseRequest(TaskId id, const proto::LeaseRequest& request, Actions& actions);
  void OnSegmentDone(TaskId id, const proto::SegmentDone& done, Nanoseconds now, Actions& actions);
  void OnEvaluationDone(TaskId id, const proto::EvaluationDone& done, Nanoseconds now, Actions& actions);
  void OnSaveDone(TaskId id, const proto::SaveDone& done, Nanoseconds now, Actions& actions);
  void OnApplied(TaskId id, const proto::AppliedPushes& applied, Actions& actions);
  void OnFenced(const proto::Fenced& fenced, Nanoseconds now, Actions& actions);
  void OnFailure(TaskId id, const proto::Failure& failure, Nanoseconds now);

  // Members.
  bool Concerns(TaskId id, uint32_t incarnation, const proto::FromTask& message) const;
  void SetUpAll(proto::Role role, Actions& actions);
  void SetUp(const std::vector<TaskId>& ids, Actions& actions);
  bool Survives(TaskId id) const;  // The job survives its loss.
  void OnLost(TaskId id, const absl::Status& reason, Nanoseconds now, Actions& actions);
  void Lose(TaskId id, const std::string& reason, Nanoseconds now, Actions& actions);
  void SendFence(TaskId id, bool takes_part, Actions& actions);
  void TellServers(proto::Fence& fence, Actions& actions);  // With the clock as it is.
  void Settle(TaskId id, Actions& actions);
  void Enrol(TaskId id, Nanoseconds now, Actions& actions);
  void FindSilent(Nanoseconds now, Actions& actions);
  bool Settling() const;  // Leases of a lost worker are not settled yet.
  int Present() const;    // Workers that are not lost.
  proto::WorkerLoss& LastLoss(TaskId id);

  // The course of the job.
  void Advance(Nanoseconds now, Actions& actions);  // If nothing more is to be waited for.
  void StartTraining(Nanoseconds now, Actions& actions);
  void Continue(Nanoseconds now, Actions& actions);  // From a barrier to what comes next.
  void RunSegment(Nanoseconds now, Actions& actions);
  void SendRuns(Actions& actions);
  void SendRun(TaskId id, Actions& actions);
  void FinishSegment(Nanoseconds now, Actions& actions);
  void BeginSave(Nanoseconds now, Actions& actions);
  void EndSave(const absl::Status& status, const std::string& directory, Nanoseconds now, Actions& actions);
  void BeginEvaluation(proto::Split split, Nanoseconds now, Actions& actions);
  void FinishEvaluation(Nanoseconds now, Actions& actions);
  void Finish(Actions& actions);
  void Stop(absl::Status status, TaskId culprit, Actions& actions);
  void FailAt(PendingFailure failure, Nanoseconds now);

  void Send(TaskId id, proto::ToTask order, Actions& actions) {
    actions.push_back(SendOrder{id, std::move(order)});
  }
  void SendLeases(TaskId id, int batches, Actions& actions);
  absl::Status Use(TaskId id, Slice positions);
  int64_t JobBegin(Slice positions) const;  // Over the whole job.
  void ReportProgress(Nanoseconds now, Actions& actions);
  void ReportEpoch(Actions& actions);
  // True once every task of the role has answered the order under way; and starts a new round.
  bool AllAnswered(proto::Role role) const;
  void ExpectAnswers();
  std::vector<TaskId> Tasks(proto::Role role) const;  // That take part.
  proto::Role SaveSources() const;
  std::string Describe(TaskId id) const;  // "worker 1 on 10.0.0.4"

  const proto::JobPlan plan_;
  const SegmentPlanner planner_;
  const bool restore_;
  const Nanoseconds started_;
  const Nanoseconds silence_, start_timeout_;

  static constexpr Nanoseconds kProgressInterval = 250 * kMillisecond;

  Phase phase_ = Phase::kGather;
  std::map<TaskId, TaskState> tasks_;
  absl::optional<PendingFailure> failure_;
  proto::FirstFailure first_failure_;
  absl::Status end_status_;

  // Training.
  proto::TrainingState state_;  // At the last barrier.
  TrainingSegment segment_;
  int64_t segment_id_ = 0;
  std::unique_ptr<SampleLedger> ledger_;
  LeaseBook leases_;
  int losses_ = 0;
  Sums epoch_sums_;
  Nanoseconds segment_begin_ = 0, first_done_ = 0;
  double epoch_barrier_seconds_ = 0;
  double training_seconds_here_ = 0;  // This attempt.
  Nanoseconds last_progress_ = 0;
  Nanoseconds last_tick_ = 0;

  // Evaluation and saving.
  int64_t order_id_ = 0;
  proto::Split split_ = proto::TRAIN;
  Sums evaluation_;
  bool evaluate_again_ = false;  // A worker was lost that owed a part of it.
  Nanoseconds phase_begin_ = 0;
  bool epoch_ended_ = false;  // The barrier closes an epoch whose result is not reported yet.
  bool save_pending_ = false;
  bool tested_ = false;
  bool final_saved_ = false;
  std::string save_error_;
  bool last_save_failed_ = false;
  proto::EpochResult epoch_result_;

  // For the summary.
  proto::RunSummary summary_;
  double startup_seconds_ = 0, checkpoint_seconds_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_JOB_CONTROLLER_H_
