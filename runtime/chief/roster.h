// The tasks of the job, the state of each task as the chief sees it, and the membership (the tasks that take
// part). Pure; owned by JobController.
#ifndef TETHYS_RUNTIME_CHIEF_ROSTER_H_
#define TETHYS_RUNTIME_CHIEF_ROSTER_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "proto/chief.pb.h"
#include "proto/chief_state.pb.h"
#include "proto/member.pb.h"
#include "proto/telemetry.pb.h"
#include "runtime/base/clock.h"
#include "runtime/chief/chief_actions.h"
#include "runtime/cluster/membership.h"

namespace tethys {

struct TaskState {
  static constexpr int64_t kMostSteps = int64_t{1} << 50;
  proto::Member member;
  bool joined = false;
  bool ready = false;
  bool gone = false;
  bool failed = false;  // True: the task has reported a failure.
  // The text of the reported failure, if the job can survive that failure. The chief acts on the failure a
  // moment later.
  std::string failure;
  Nanoseconds failed_at = 0;
  bool run_done = false;       // True: the worker has ended its run over the segment.
  Nanoseconds last_heard = 0;  // 0: no message has come, or none since the task was lost.
  proto::Heartbeat heartbeat;  // The last heartbeat, without its resource samples.
  int64_t setup_ns = 0;
  int64_t step = 0;
  uint32_t generation = 0;  // The generation of the newest Form that the process was sent; 0: none.
  bool formed = false;      // True: the process has answered the newest Form.
  // The fields below are used only for workers whose loss the job survives.
  bool lost = false;  // True: the task is not waited for, and its messages are ignored.
  // The number of steps by which the median worker was ahead of this replacement when the replacement began
  // to take part. 0 if batches are leased in rounds, because a replacement's own count then starts at the
  // current round.
  int64_t missed = 0;
  uint32_t candidate = 0;  // The incarnation admitted as a replacement that has not joined yet; 0: none.

  // Resets the state for a new process of the task, which is its first or a replacement.
  void Begin(TaskId id, uint32_t incarnation, Nanoseconds now);
  // Notes the task's report that it has made `steps` steps or updates. More than kMostSteps count as
  // kMostSteps.
  void HasMade(int64_t steps) { step = std::max(step, std::min(steps, kMostSteps)); }
  // The number of steps to compare with other workers: the task's own steps plus the steps that it missed.
  int64_t pace() const { return step + missed; }
};

// A task that the chief counts as lost because of what it did or did not do.
struct TaskGivenUp {
  TaskId task;
  std::string why;
};

// A task takes part if it is a member and its process is the one that the membership names.
//
// Invariant: a task takes part unless it is lost, or is a replacement that does not take part yet. If workers
// train on leases, a lost worker is no member. Otherwise a lost worker or server stays a member until a new
// group forms.
class Roster {
 public:
  // A task is shown as silent if nothing was heard from it for this time.
  static constexpr Nanoseconds kSilent = 2 * kSecond;

  // `now`: the chief's time, from which on the silence of tasks is measured.
  Roster(Membership membership, Nanoseconds now);

  bool Has(TaskId id) const { return tasks_.count(id) > 0; }
  // Requires Has(id).
  TaskState& at(TaskId id) { return tasks_.at(id); }
  const TaskState& at(TaskId id) const { return tasks_.at(id); }
  std::map<TaskId, TaskState>& tasks() { return tasks_; }
  const std::map<TaskId, TaskState>& tasks() const { return tasks_; }

  const Membership& membership() const { return membership_; }
  // Lets the task's newest process take part from now on. Requires that no process of the task takes part.
  void TakesPart(TaskId id);
  // Makes exactly these workers, and all servers, the members of a new group. Requires that none of them is
  // lost. Errors: as Membership::Regroup.
  absl::Status Regroup(const std::vector<TaskId>& workers);
  // Notes that the task's process is lost.
  void Lose(TaskId id);
  // True if the task's process is a replacement that does not take part yet.
  bool late(TaskId id) const { return !at(id).lost && !takes_part(id); }

  // The members of a role.
  std::vector<TaskId> Present(proto::Role role) const { return membership_.Members(role); }
  // The group that the tasks form now: all members that are not lost and, if workers train on leases, the
  // replacements that do not take part yet.
  proto::Group Group() const;
  // True if no earlier task of the group runs on the task's host. Requires a task that is not lost.
  bool FirstOnHost(TaskId id) const;
  // True if at least one task of the role takes part, and `flag` is true for every task of the role that
  // takes part.
  bool All(proto::Role role, bool TaskState::*flag) const;
  // The number of workers that are not lost, including replacements that do not take part yet.
  int workers_left() const;
  // True if at least one worker other than `id` computes, according to the worker's last heartbeat: the
  // worker is within a step and does not yet wait for the exchange of this step.
  bool AnotherComputes(TaskId id) const;
  // True if no session is open any more.
  bool all_gone() const;
  // Gives each of these workers, in this order, the least local rank that no other worker of its host has.
  // All other workers keep their local ranks. So a replacement never gets the GPU of a worker that still
  // runs, regardless of the order of replacements.
  void AssignLocalRanks(const std::vector<TaskId>& workers);

  // The tasks that have been silent for longer than `patience` says. Called at every tick. If the chief
  // itself stalled between two ticks for more than a quarter of a task's patience, this time does not count.
  std::vector<TaskId> FindSilent(Nanoseconds now, absl::FunctionRef<Nanoseconds(TaskId)> patience);

  // The time of the last search, which every tick makes.
  Nanoseconds last_search() const { return last_search_; }

  // The median of pace() over the workers that take part; 0 if no worker takes part.
  int64_t UsualStep() const;
  // The tasks that are shown to the user as late: tasks that have been silent for 2 s or more and, if workers
  // do not step together (`own_pace`), workers with less than three quarters of the median number of steps.
  // Replacements never count as slow.
  std::vector<proto::LateTask> LateTasks(Nanoseconds now, bool own_pace) const;

  std::string Describe(TaskId id) const;  // "worker 1 on 10.0.0.4"

  void Save(proto::RosterState& state) const;
  // InvalidArgument: the tasks differ from the plan's tasks, have impossible values, or break the invariant.
  absl::Status Restore(const proto::JobPlan& plan, const proto::RosterState& state);

 private:
  bool takes_part(TaskId id) const {
    return membership_.Has(id) && membership_.IncarnationOf(id) == at(id).member.incarnation();
  }

  Membership membership_;
  std::map<TaskId, TaskState> tasks_;  // Every task of the plan.
  Nanoseconds last_search_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_ROSTER_H_
