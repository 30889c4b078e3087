#include "runtime/chief/roster.h"

#include <set>
#include <utility>

#include "runtime/chief/saved_values.h"
#include "runtime/cluster/job_plan.h"

namespace tethys {
namespace {

constexpr int kNoLocalRank = -1;

void Save(const TaskState& task, proto::TaskRecord& saved) {
  *saved.mutable_member() = task.member;
  saved.set_joined(task.joined);
  saved.set_ready(task.ready);
  saved.set_gone(task.gone);
  saved.set_failed(task.failed);
  saved.set_failure(task.failure);
  saved.set_failed_at_ns(task.failed_at);
  saved.set_run_done(task.run_done);
  saved.set_last_heard_ns(task.last_heard);
  *saved.mutable_heartbeat() = task.heartbeat;
  saved.set_setup_ns(task.setup_ns);
  saved.set_step(task.step);
  saved.set_lost(task.lost);
  saved.set_missed(task.missed);
  saved.set_candidate(task.candidate);
  saved.set_generation(task.generation);
  saved.set_formed(task.formed);
}

TaskState TaskOfRecord(const proto::TaskRecord& saved) {
  return {.member = saved.member(),
          .joined = saved.joined(),
          .ready = saved.ready(),
          .gone = saved.gone(),
          .failed = saved.failed(),
          .failure = saved.failure(),
          .failed_at = saved.failed_at_ns(),
          .run_done = saved.run_done(),
          .last_heard = saved.last_heard_ns(),
          .heartbeat = saved.heartbeat(),
          .setup_ns = saved.setup_ns(),
          .step = saved.step(),
          .generation = saved.generation(),
          .formed = saved.formed(),
          .lost = saved.lost(),
          .missed = saved.missed(),
          .candidate = saved.candidate()};
}

// `survives`: the job goes on after the loss of the task.
absl::Status CheckMember(TaskId id, bool survives, const proto::TaskRecord& saved,
                         const Membership& membership) {
  const uint32_t own = saved.member().incarnation();
  const uint32_t newest = membership.IncarnationOf(id);
  const bool settled = membership.Has(id) && !saved.lost() && saved.candidate() == 0;
  if ((!survives && !settled) || (saved.candidate() != 0 && saved.candidate() < own)) {
    return absl::InvalidArgumentError(absl::StrCat(
        TaskName(id.role, id.index),
        " has a replacement in this state, but this job does not survive the loss of this task"));
  }
  // In lock step a lost task is a member until a new group forms; a lost server always is.
  const bool stays = survives && (!membership.leased() || id.role == proto::PS);
  const bool fits = !membership.Has(id) ? own > newest || (saved.lost() && own == newest)
                    : stays             ? own >= newest
                                        : !saved.lost() && own == newest;
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(TaskName(id.role, id.index), " has incarnation ", own,
                                                 ", which does not fit the membership"));
}

absl::Status Check(TaskId id, const proto::TaskRecord& saved) {
  StateCheck check;
  const proto::Member& member = saved.member();
  const bool empty =
      member.role() == proto::ROLE_UNKNOWN && member.index() == 0 && saved.last_heard_ns() == 0;
  check.That(empty || (member.role() == id.role && member.index() == id.index), "its member is ",
             member.ShortDebugString());
  check.Within("local_rank", member.local_rank(), kNoLocalRank, StateCheck::kMostCount);
  check.Time("failed_at_ns", saved.failed_at_ns());
  check.Time("last_heard_ns", saved.last_heard_ns());
  check.Within("clock_offset_ns", saved.heartbeat().clock_offset_ns(), -StateCheck::kLatest,
               StateCheck::kLatest);
  check.Within("step", saved.step(), 0, TaskState::kMostSteps);
  check.Within("missed", saved.missed(), 0, TaskState::kMostSteps);
  return Annotate(check.status(), TaskName(id.role, id.index));
}

}  // namespace

void TaskState::Begin(TaskId id, uint32_t incarnation, Nanoseconds now) {
  member.set_role(id.role);
  member.set_index(id.index);
  member.set_incarnation(incarnation);
  member.set_local_rank(kNoLocalRank);
  last_heard = now;
  heartbeat.Clear();
  step = missed = 0;
  failure.clear();
  generation = 0;
  lost = gone = failed = joined = ready = formed = false;
}

Roster::Roster(Membership membership, Nanoseconds now)
    : membership_(std::move(membership)), last_search_(now) {
  for (const proto::Role role : {proto::WORKER, proto::PS}) {
    for (const TaskId id : membership_.Members(role)) tasks_[id];
  }
}

void Roster::TakesPart(TaskId id) {
  const uint32_t incarnation = at(id).member.incarnation();
  absl::StatusOr<Membership> next =
      membership_.Has(id) ? membership_.Replace(id, incarnation) : membership_.Add(id, incarnation);
  TETHYS_CHECK(next.ok(), next.status().message());
  membership_ = *std::move(next);
}

absl::Status Roster::Regroup(const std::vector<TaskId>& workers) {
  std::map<TaskId, uint32_t> incarnations;
  for (const TaskId id : workers) incarnations[id] = at(id).member.incarnation();
  for (const TaskId id : Present(proto::PS)) incarnations[id] = at(id).member.incarnation();
  TETHYS_ASSIGN_OR_RETURN(membership_, membership_.Regroup(incarnations));
  return absl::OkStatus();
}

void Roster::Lose(TaskId id) {
  TaskState& task = at(id);
  task.lost = task.gone = true;
  task.joined = task.ready = task.formed = false;
  task.last_heard = 0;
  if (!membership_.leased() || id.role != proto::WORKER || !membership_.Has(id)) return;
  absl::StatusOr<Membership> next = membership_.Remove(id);
  TETHYS_CHECK(next.ok(), next.status().message());
  membership_ = *std::move(next);
}

proto::Group Roster::Group() const {
  proto::Group group;
  group.set_generation(membership_.generation());
  for (const auto& [id, task] : tasks_) {
    if (!task.lost && (membership_.leased() || takes_part(id))) *group.add_member() = task.member;
  }
  return group;
}

bool Roster::FirstOnHost(TaskId id) const {
  const std::string& host = at(id).member.host();
  const auto first = std::find_if(tasks_.begin(), tasks_.end(), [&](const auto& entry) {
    return !entry.second.lost && entry.second.member.host() == host;
  });
  return first->first == id;
}

bool Roster::All(proto::Role role, bool TaskState::*flag) const {
  const std::vector<TaskId> ids = Present(role);
  return !ids.empty() && std::all_of(ids.begin(), ids.end(), [&](TaskId id) { return tasks_.at(id).*flag; });
}

int Roster::workers_left() const {
  return static_cast<int>(std::count_if(tasks_.begin(), tasks_.end(), [](const auto& entry) {
    return entry.first.role == proto::WORKER && !entry.second.lost;
  }));
}

bool Roster::all_gone() const {
  return std::all_of(tasks_.begin(), tasks_.end(),
                     [](const auto& entry) { return entry.second.gone || entry.second.last_heard == 0; });
}

void Roster::AssignLocalRanks(const std::vector<TaskId>& workers) {
  for (const TaskId id : workers) tasks_.at(id).member.set_local_rank(kNoLocalRank);
  for (const TaskId id : workers) {
    proto::Member& own = tasks_.at(id).member;
    std::set<int> taken;
    for (const auto& [other, task] : tasks_) {
      if (other.role == proto::WORKER && !task.lost && task.member.host() == own.host()) {
        taken.insert(task.member.local_rank());
      }
    }
    int rank = 0;
    while (taken.count(rank) > 0) ++rank;
    own.set_local_rank(rank);
  }
}

bool Roster::AnotherComputes(TaskId id) const {
  return std::any_of(tasks_.begin(), tasks_.end(), [id](const auto& entry) {
    const TaskState& task = entry.second;
    return !(entry.first == id) && !task.lost && !task.gone && task.heartbeat.computing();
  });
}

std::vector<TaskId> Roster::FindSilent(Nanoseconds now, absl::FunctionRef<Nanoseconds(TaskId)> patience) {
  const Nanoseconds pause = now - last_search_;
  last_search_ = now;
  std::vector<TaskId> silent;
  for (auto& [id, task] : tasks_) {
    if (task.last_heard == 0 || task.gone) continue;
    if (pause > patience(id) / 4) task.last_heard += pause;
    if (now - task.last_heard > patience(id)) silent.push_back(id);
  }
  return silent;
}

int64_t Roster::UsualStep() const {
  std::vector<int64_t> steps;
  for (const auto& [id, task] : tasks_) {
    const bool there = task.last_heard != 0 && !task.gone && takes_part(id);
    if (id.role == proto::WORKER && there) steps.push_back(task.pace());
  }
  std::sort(steps.begin(), steps.end());
  return steps.empty() ? 0 : steps[steps.size() / 2];
}

std::vector<proto::LateTask> Roster::LateTasks(Nanoseconds now, bool own_pace) const {
  constexpr int64_t kFewSteps = 20;  // If the median worker has made fewer steps, no worker is called slow.
  const int64_t usual = UsualStep();
  std::vector<proto::LateTask> late;
  for (const auto& [id, task] : tasks_) {
    if (task.gone || task.lost || task.last_heard == 0) continue;
    const bool silent = now - task.last_heard >= kSilent;
    const bool compared = own_pace && id.role == proto::WORKER && task.member.incarnation() <= 1;
    if (!silent && !(compared && usual >= kFewSteps && 4 * task.step < 3 * usual)) continue;
    proto::LateTask& line = late.emplace_back();
    line.set_name(Describe(id));
    if (silent) line.set_silent_seconds(ToSeconds(now - task.last_heard));
    line.set_step(task.step);
    line.set_usual_step(usual);
  }
  return late;
}

void Roster::Save(proto::RosterState& state) const {
  for (const auto& [id, task] : tasks_) {
    proto::TaskRecord& saved = *state.add_task();
    Put(id, *saved.mutable_task());
    tethys::Save(task, saved);
  }
  state.set_last_search_ns(last_search_);
  membership_.Save(*state.mutable_membership());
}

absl::Status Roster::Restore(const proto::JobPlan& plan, const proto::RosterState& state) {
  TETHYS_ASSIGN_OR_RETURN(membership_, Membership::Restore(plan, state.membership()));
  StateCheck check;
  check.Time("last_search_ns", state.last_search_ns());
  check.That(state.task_size() == static_cast<int>(tasks_.size()), "the saved state has ", state.task_size(),
             " tasks, but the job has ", tasks_.size());
  TETHYS_RETURN_IF_ERROR(check.status());
  auto own = tasks_.begin();
  for (const proto::TaskRecord& saved : state.task()) {
    const TaskId id = TaskOf(saved.task());
    check.That(id == own->first, "the saved state has the task ", saved.task().ShortDebugString(),
               " in place of ", TaskName(own->first.role, own->first.index));
    check.And(Check(own->first, saved));
    const bool survives = id.role == proto::WORKER || CopiesShards(plan);
    if (check.ok()) check.And(CheckMember(id, survives, saved, membership_));
    own->second = TaskOfRecord(saved);
    ++own;
  }
  last_search_ = state.last_search_ns();
  return check.status();
}

std::string Roster::Describe(TaskId id) const {
  const std::string& host = tasks_.at(id).member.host();
  return absl::StrCat(TaskName(id.role, id.index), host.empty() ? "" : absl::StrCat(" on ", host));
}

}  // namespace tethys
