// GroupMembership's functions that save its state and read it back.
#include <map>
#include <utility>

#include "runtime/chief/group_membership.h"
#include "runtime/chief/saved_values.h"
#include "runtime/cluster/job_plan.h"

namespace tethys {

static_assert(static_cast<int>(GroupMembership::Stage::kForming) == proto::GroupState::FORMING);

void GroupMembership::Save(proto::GroupState& state) const {
  if (!active_) return;
  state.set_stage(static_cast<proto::GroupState::Stage>(stage_));
  for (const auto& [task, part] : parts_) {
    proto::GroupState::Part& saved = *state.add_part();
    Put(task, *saved.mutable_task());
    saved.set_has_state(part.has_state);
    saved.set_halted(part.halted);
    if (part.applied.has_value()) saved.set_applied(*part.applied);
    if (part.copy.has_value()) saved.set_copy(*part.copy);
    saved.set_asked_ns(part.asked);
  }
  state.set_step(step_);
  state.set_began_ns(began_);
  state.set_waiting_since_ns(waiting_since_);
  Put(last_lost_, *state.mutable_last_lost());
  state.set_loss_text(loss_text_);
  state.set_lost(lost_);
  state.set_joins(joins_);
  state.set_accusing(accusing_);
  state.set_counted(counted_);
  state.set_failures(failures_);
  state.set_reason(reason_);
  for (const auto& [worker, times] : blame_) {
    proto::GroupState::Blame& saved = *state.add_blame();
    saved.set_worker(worker.index);
    saved.set_times(times);
  }
  *state.mutable_change() = changes_;
}

absl::Status GroupMembership::Restore(const proto::GroupState& state) {
  if (!active_) return absl::OkStatus();
  StateCheck check;
  check.That(proto::GroupState::Stage_IsValid(state.stage()), "there is no stage ", state.stage());
  check.That(state.part_size() == static_cast<int>(parts_.size()), "it is of ", state.part_size(),
             " tasks, the job has ", parts_.size());
  std::map<TaskId, Part> parts;
  for (const proto::GroupState::Part& saved : state.part()) {
    check.Count("applied", saved.applied());
    check.Time("asked_ns", saved.asked_ns());
    const TaskId task = TaskOf(saved.task());
    check.That(parts_.count(task) > 0, "there is no ", TaskName(task.role, task.index));
    Part& part = parts[task];
    part.has_state = saved.has_state();
    part.halted = saved.halted();
    check.Count("copy", saved.copy());
    if (saved.has_applied()) part.applied = saved.applied();
    if (saved.has_copy()) part.copy = saved.copy();
    part.asked = saved.asked_ns();
  }
  check.That(parts.size() == parts_.size(), "a task is missing");
  check.Count("step", state.step());
  check.Time("began_ns", state.began_ns());
  check.Time("waiting_since_ns", state.waiting_since_ns());
  check.Count("counted", state.counted());
  check.Within("failures", state.failures(), 0, 1 << 30);
  const TaskId lost = TaskOf(state.last_lost());
  check.That(lost.role == proto::ROLE_UNKNOWN || parts_.count(lost) > 0, "no such task was lost");
  std::map<TaskId, int> blame;
  for (const proto::GroupState::Blame& saved : state.blame()) {
    const TaskId worker{proto::WORKER, saved.worker()};
    check.That(parts_.count(worker) > 0, "there is no worker ", saved.worker());
    check.Within("times", saved.times(), 0, 1 << 30);
    blame[worker] = saved.times();
  }
  for (const proto::GroupChange& change : state.change()) {
    check.Count("steps_again", change.steps_again());
    check.Count("unrecorded_samples", change.unrecorded_samples());
  }
  TETHYS_RETURN_IF_ERROR(check.status());
  stage_ = static_cast<Stage>(state.stage());
  parts_ = std::move(parts);
  step_ = state.step();
  began_ = state.began_ns();
  waiting_since_ = state.waiting_since_ns();
  last_lost_ = lost;
  loss_text_ = state.loss_text();
  lost_ = state.lost();
  joins_ = state.joins();
  accusing_ = state.accusing();
  counted_ = state.counted();
  failures_ = state.failures();
  reason_ = state.reason();
  blame_ = std::move(blame);
  changes_ = state.change();
  return absl::OkStatus();
}

}  // namespace tethys
