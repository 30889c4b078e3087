// Keeps the losses that the job survives, and knows which lost tasks are replaced. Handles workers on leases
// that are lost while the other workers train on (docs/design/cluster.md, When a worker is lost): makes
// servers refuse the frames of a lost worker, settles the batches that the lost worker held, and admits its
// replacement. Lost servers and chiefs count among the job's restarts, too. Pure; owned by JobController,
// which decides when each of these steps is due.
//
//   Lose -> Fence ... OnFenced: kLostIsFenced -> Settle           the other workers train on meanwhile
//   a replacement is ready -> Enrol ... OnFenced: kEnrolled -> TakesPart
#ifndef TETHYS_RUNTIME_CHIEF_TASK_LOSSES_H_
#define TETHYS_RUNTIME_CHIEF_TASK_LOSSES_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "proto/chief.pb.h"
#include "proto/chief_state.pb.h"
#include "proto/plan.pb.h"
#include "proto/summary.pb.h"
#include "runtime/base/clock.h"
#include "runtime/chief/chief_actions.h"
#include "runtime/chief/roster.h"
#include "runtime/chief/running_segment.h"

namespace tethys {

class TaskLosses {
 public:
  // `plan`, `roster` and `segment` must outlive this object.
  TaskLosses(const proto::JobPlan& plan, Roster& roster, RunningSegment& segment, Nanoseconds started)
      : plan_(plan), roster_(roster), segment_(segment), started_(started) {}

  // Marks the worker as lost; from now on its messages are ignored. `text`: a description of the loss for the
  // user.
  void Lose(TaskId id, const std::string& reason, const std::string& text, Nanoseconds now, Actions& actions);

  // The same for a server whose shards have a copy.
  void LoseServer(TaskId id, const std::string& reason, const std::string& text, Nanoseconds now,
                  Actions& actions);

  // Asks all servers to refuse the frames of the lost incarnation.
  void Fence(TaskId id, Actions& actions);
  // Asks all servers to wait for the replacement from the next round on.
  void Enrol(TaskId id, Actions& actions);

  enum class Answer { kNotYet, kLostIsFenced, kEnrolled };
  // Takes a server's answer. A result other than kNotYet means that all servers have answered the last
  // request about the worker.
  Answer OnFenced(TaskId server, const proto::Fenced& fenced);

  // The last request about each worker that was lost.
  std::vector<proto::Fence> Fences() const;
  // Sends these requests again; all servers are to answer those that some have not answered.
  void AskAgain(Actions& actions);

  // Settles each batch that the worker held, by the reports of the servers. Each batch is then used, torn
  // (only some servers applied it) or free again.
  void Settle(TaskId id, Actions& actions);
  // True if the task's process is the replacement of a lost process, and has not taken part yet.
  bool Awaited(TaskId id) const;
  // Notes that the replacement of a lost task takes part from now on.
  void Replaced(TaskId id, Nanoseconds now, Actions& actions);
  // Lets the replacement take part from now on.
  void TakesPart(TaskId id, Nanoseconds now, Actions& actions);

  // True if a process is about to take the place of a lost task, or of a lost task of this role: the launcher
  // will start a replacement (max_restarts), or a replacement was admitted.
  bool awaits_replacement(proto::Role role = proto::ROLE_UNKNOWN) const;
  // True if the launcher would replace the next task that is lost.
  bool can_replace() const { return static_cast<int64_t>(Unreplaced().size()) < RestartsLeft(); }
  // A new process is the job's chief. The launcher has used one of the job's restarts for it.
  // `absent`: the seconds without a chief.
  void OnTookOver(Nanoseconds now, double absent);
  // True if another process became the job's chief at `time` or later.
  bool LostChiefSince(Nanoseconds time) const;
  // True if some server has not answered the chief's last request about this worker.
  bool asking(TaskId id) const;
  // True if some server has not fenced a lost worker yet.
  bool settling() const;
  // Time of the last loss; 0: no loss.
  Nanoseconds last() const { return last_; }
  // Sets the numbers of lost processes that the attempt outlived.
  void FillAttempt(proto::Attempt& attempt) const;
  void FillSummary(proto::RunSummary& summary) const;

  void Save(proto::LossesState& state) const;
  // InvalidArgument: a request or a loss names no worker of this job, or a lost worker has no recorded loss.
  absl::Status Restore(const proto::LossesState& state);

 private:
  // The last request that all servers got about one worker's loss or replacement.
  struct Question {
    proto::Fence fence;
    std::set<int> unanswered = {};  // The servers that have not answered.
    Nanoseconds lost_at = 0;
  };

  // Says in a report to the launcher that the task is lost. `text`: for the user.
  void ReportLoss(TaskId id, const std::string& text, Actions& actions) const;
  // The number of the job's restarts that the launcher has not used for a process that the chief knows. Each
  // process of a task after its first has used one, even if the chief never knew its predecessor.
  int64_t RestartsLeft() const;
  // The lost tasks of which no newer process is known, in the order of their losses. The launcher starts a
  // replacement for the first RestartsLeft() of them.
  std::vector<TaskId> Unreplaced() const;
  // Describes for the user how the job goes on after the newest loss.
  std::string WhatFollows() const;
  void Ask(TaskId id, bool takes_part, Actions& actions);
  std::set<int> AllServers() const;
  void SendToServers(proto::Fence& fence, Actions& actions);  // Sets the next round in `fence`.
  proto::WorkerLoss& LastOf(TaskId id);

  const proto::JobPlan& plan_;
  Roster& roster_;
  RunningSegment& segment_;
  const Nanoseconds started_;

  std::map<TaskId, Question> questions_;
  google::protobuf::RepeatedPtrField<proto::WorkerLoss> losses_;
  Nanoseconds last_ = 0;
  google::protobuf::RepeatedPtrField<proto::ServerLoss> server_losses_;
  google::protobuf::RepeatedPtrField<proto::ChiefLoss> chief_losses_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_TASK_LOSSES_H_
