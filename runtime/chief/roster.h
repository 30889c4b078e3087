// Who belongs to the job, and what the chief knows of each task. Pure; belongs to the controller.
#ifndef TETHYS_RUNTIME_CHIEF_ROSTER_H_
#define TETHYS_RUNTIME_CHIEF_ROSTER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "proto/chief.pb.h"
#include "proto/telemetry.pb.h"
#include "runtime/base/clock.h"
#include "runtime/chief/chief_actions.h"

namespace tethys {

struct TaskState {
  proto::Member member;
  bool joined = false;
  bool ready = false;
  bool gone = false;
  bool failed = false;  // It said why it ends.
  std::string failure;  // Its words, where the job may survive that; held back for a moment.
  Nanoseconds failed_at = 0;
  bool segment_done = false;   // A worker has ended the running segment.
  Nanoseconds last_heard = 0;  // 0: not yet, or not since it was lost.
  proto::Heartbeat heartbeat;
  int64_t setup_ns = 0;
  int64_t step = 0;
  // Of workers that hold leases:
  bool lost = false;       // Not waited for; nothing it says is heard.
  bool late = false;       // A replacement that does not take part yet.
  uint32_t candidate = 0;  // Incarnation admitted to take its place, when it joins.

  // A new life of the task: a first one, or a replacement.
  void Begin(TaskId id, uint32_t incarnation, Nanoseconds now);
};

class Roster {
 public:
  Roster(int workers, int servers);

  bool Has(TaskId id) const { return tasks_.count(id) > 0; }
  // Requires Has(id).
  TaskState& at(TaskId id) { return tasks_.at(id); }
  const TaskState& at(TaskId id) const { return tasks_.at(id); }
  std::map<TaskId, TaskState>& tasks() { return tasks_; }
  const std::map<TaskId, TaskState>& tasks() const { return tasks_; }

  // Those of a role that take part.
  std::vector<TaskId> Present(proto::Role role) const;
  // There is somebody of that role who takes part, and it is true of all of them.
  bool All(proto::Role role, bool TaskState::*flag) const;
  // Workers that are not lost, replacements that do not take part yet included.
  int workers_left() const;
  // By its last heartbeat, a worker other than `id` is within a step and not yet waiting for its exchange.
  bool AnotherComputes(TaskId id) const;
  // Nobody's session is open any more.
  bool all_gone() const;
  // These workers are about to be set up: each gets, in this order, the least local rank that no other worker
  // of its host has. Those that are set up keep theirs, so a replacement never gets the GPU of one that is
  // still there, whoever else was lost and in whichever order they come back.
  void AssignLocalRanks(const std::vector<TaskId>& workers);

  // Those of whom nothing was heard for longer than `patience`. Asked at every tick: of a long pause between
  // two, in which nobody was listened to, nobody is blamed.
  std::vector<TaskId> FindSilent(Nanoseconds now, Nanoseconds patience);

  // For the user: tasks of which nothing was heard for 2 s or more and, where `own_pace`, workers that have
  // made less than three quarters of the median's steps. Replacements are not counted as behind.
  std::vector<proto::LateTask> LateTasks(Nanoseconds now, bool own_pace) const;

  std::string Describe(TaskId id) const;  // "worker 1 on 10.0.0.4"

 private:
  std::map<TaskId, TaskState> tasks_;
  Nanoseconds last_search_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_ROSTER_H_
