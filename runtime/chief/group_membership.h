// Decides which workers of a job in lock step form the next group, and from which step they go on, when a
// worker is lost, a replacement is ready, or an exchange fails. The servers of the job are members of every
// group. If their shards have copies (CopiesShards), a group waits for the replacement of a lost server,
// which takes its shards from the copy; without copies, the loss of a server ends the job. Pure; owned by
// JobController, which says when the group may be halted, and does what follows once the group has formed.
//
//   kFormed  --Halt: a member is lost, its exchange failed, or a replacement is ready--> kHalting
//   kHalting --Proceed: all have answered, too few workers or a server are missing--> kWaiting
//   kHalting, kWaiting --Proceed: all have answered, all servers and enough workers are ready--> kForming
//   kForming --OnFormed: all have joined the group--> kFormed
//   kForming --Halt: a member is lost, or its exchange failed--> kHalting
//
// In a mirrored job, one worker whose parameters contain the most steps is the source of the next group.
// Workers with fewer steps, or without parameters, copy the parameters of the source. In a job with servers,
// the next group goes on from the lowest number of steps that a server has made, or that the copy of a
// server's shards contains. A server that has made one step more undoes this step, and all workers fetch the
// parameters.
//
// Halt is the order to leave the group; Form is the order to join the next group. Rules:
//
//  1. A worker that has joined after the job began reports no parameters (Halted.applied is absent) until a
//     group that contains this worker has formed. Otherwise the worker's initial values would count as
//     parameters of the training.
//  2. Halt goes to every task that was sent a Form, whether or not that group has formed. A task that was
//     sent a Form has left its earlier group, and only its answer to Halt says how many steps its parameters
//     contain.
//  3. An answer counts only if it comes from the task's current process and is about the newest group of
//     this process.
//  4. The chief waits longer for a silent task if no other task has the parameters (Spared).
//  5. The chief waits longer if most workers fall silent at once, because then the chief itself may be cut
//     off from the network (Spared).
#ifndef TETHYS_RUNTIME_CHIEF_GROUP_MEMBERSHIP_H_
#define TETHYS_RUNTIME_CHIEF_GROUP_MEMBERSHIP_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "proto/chief.pb.h"
#include "proto/chief_state.pb.h"
#include "proto/plan.pb.h"
#include "proto/summary.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/chief/chief_actions.h"
#include "runtime/chief/roster.h"
#include "runtime/shape/job_shape.h"

namespace tethys {

class GroupMembership {
 public:
  enum class Stage { kFormed, kHalting, kWaiting, kForming };

  // The times that are added to timeouts.silence before a silent worker is given up: if no other worker has
  // the parameters (kHolderPatience), or if most workers are silent (kMajorityPatience).
  static constexpr Nanoseconds kHolderPatience = 20 * kSecond;
  static constexpr Nanoseconds kMajorityPatience = 15 * kSecond;
  // If this many exchanges have failed in a row, without a lost worker and without a counted step in between,
  // the worker that was blamed most is given up.
  static constexpr int kMostFailures = 2;
  // If more than this number of such failures follow one another, the job ends. This happens if no worker can
  // be given up: no worker was blamed, or only the blamed worker has the parameters.
  static constexpr int kTooManyFailures = 10;

  // `plan` and `roster` must outlive this object.
  GroupMembership(const proto::JobPlan& plan, Roster& roster);

  // True if the job's workers form new groups. If false, the job does not use this object.
  bool active() const { return active_; }
  Stage stage() const { return stage_; }

  // ---- events

  // Training begins: from now on, every worker has the parameters with which the job starts.
  void TrainingBegins();
  // The task is lost; `text` describes the loss for the user.
  void OnLost(TaskId task, const std::string& text);
  // A task has left its newest group. Its parameters contain `halted.applied` steps.
  void OnHalted(TaskId task, const proto::Halted& halted);
  // A task has answered its newest Form. Returns true if the group has now formed.
  bool OnFormed(TaskId task);
  // The worker computes, or sends again after a silence, so its answer may come late.
  void OnDelay(TaskId worker, Nanoseconds now);

  // ---- decisions

  // True if the group cannot stay together: a member is lost, or has left the group.
  bool broken() const;
  // True if the group has formed, and a replacement is ready to join it.
  bool grows() const;
  // Halts the group. Requires kFormed or kForming. `counted`: the number of steps that count, which are never
  // made again (held_records.h).
  void Halt(int64_t counted, Nanoseconds now, Actions& actions);
  // While halting or waiting: forms the next group if all tasks have answered and enough workers are ready.
  // Otherwise, and in other stages, does nothing. `replaced`: a lost worker will be replaced. `interrupted`:
  // the user has ended the job, so the next group only saves a checkpoint; unless the job is sharded, one
  // worker is then enough. Unavailable: no task has the parameters of `counted` steps any more, too few
  // workers are left, or a lost server is not replaced.
  absl::Status Proceed(int64_t counted, bool replaced, bool interrupted, Nanoseconds now, Actions& actions);

  // True if `task`, one of the `silent` tasks, is not given up yet (kHolderPatience, kMajorityPatience).
  bool Spared(TaskId task, const std::vector<TaskId>& silent, Nanoseconds silence, Nanoseconds now) const;
  // A task that has not answered its last Halt for `to_leave`, or its last Form for `to_join`, although it
  // still sends messages, is not computing, and waits for no silent server.
  absl::optional<TaskGivenUp> Overdue(Nanoseconds to_leave, Nanoseconds to_join, Nanoseconds now) const;
  // After Halt: the worker that others blame most for repeated failures of exchanges.
  absl::optional<TaskGivenUp> Blamed() const;

  // ---- after the group has formed

  int64_t step() const { return step_; }  // The number of steps that all members' parameters contain.
  // Records the change of the group, which undid `again` steps and left `unrecorded` samples without a
  // record.
  const proto::GroupChange& Changed(int64_t again, int64_t unrecorded, Nanoseconds now, Nanoseconds started);
  void FillSummary(proto::RunSummary& summary) const { *summary.mutable_group_change() = changes_; }

  // The last lost task, which is to blame if the job cannot go on; its role is unknown if none was lost.
  TaskId last_lost() const { return last_lost_; }

  void Save(proto::GroupState& state) const;
  // Requires the roster to be restored. InvalidArgument: no job can be in this state.
  absl::Status Restore(const proto::GroupState& state);

 private:
  struct Part {
    bool has_state = false;  // The task has parameters of the job's training.
    bool halted = false;     // The task has left its newest group.
    absl::optional<int64_t> applied;
    absl::optional<int64_t> copy;  // The steps in the server's copy of another server's shards.
    Nanoseconds asked = 0;         // The time of the unanswered Halt or Form; 0: none.
  };

  bool HasState(TaskId task) const;
  std::vector<TaskId> Members() const;  // The workers and servers of the membership.
  std::vector<TaskId> Living() const;   // The tasks that are not lost.
  std::vector<TaskId> InGroup() const;  // The tasks that were sent a Form, and are not lost.
  // True if the server has shards, but not their values: it is lost, or it is a replacement.
  bool LacksShards(TaskId server) const;
  // The number of steps from which the next group goes on; nullopt: no task has parameters.
  absl::optional<int64_t> NextStep() const;
  // The number of steps in the parameters of a worker; for a server, the lower number of its shards and of
  // their copy.
  absl::optional<int64_t> StepsOf(TaskId task) const;
  absl::Status CannotForm(const std::string& why) const;
  // Describes the workers and servers that are missing for the next group; empty: none.
  std::string Missing(int workers, bool any_number) const;
  absl::Status Wait(const std::string& missing, bool replaced, Nanoseconds now, Actions& actions);
  absl::Status Form(const std::vector<TaskId>& workers, Nanoseconds now, Actions& actions);
  void NoteFailure(int64_t counted);

  const proto::Job& job_;
  const GroupRules rules_;
  const bool active_;
  const bool on_servers_;  // True: the servers keep the parameters.
  const proto::Placement placement_;
  Roster& roster_;

  Stage stage_ = Stage::kFormed;
  std::map<TaskId, Part> parts_;  // Every worker and server of the plan.
  int64_t step_ = 0;
  Nanoseconds began_ = 0;  // The time when the last formed group was halted.
  Nanoseconds waiting_since_ = 0;

  TaskId last_lost_;
  std::string loss_text_;
  // The reasons why the last formed group was halted.
  bool lost_ = false;   // A task was lost.
  bool joins_ = false;  // A replacement was ready.
  std::string reason_;  // The first failed exchange; empty: none.

  // Exchanges that failed in a row, without a loss and without a step that counts in between.
  int failures_ = 0;
  int64_t counted_ = 0;          // The number of steps that counted at the last failure.
  uint32_t accusing_ = 0;        // The newest generation in which a worker was blamed.
  std::map<TaskId, int> blame_;  // How often a worker was blamed in these failures.

  google::protobuf::RepeatedPtrField<proto::GroupChange> changes_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_GROUP_MEMBERSHIP_H_
