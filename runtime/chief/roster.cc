#include "runtime/chief/roster.h"

#include <algorithm>
#include <set>

#include "runtime/cluster/job_plan.h"

namespace tethys {
namespace {

constexpr int kNoLocalRank = -1;

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
  lost = gone = failed = joined = ready = false;
}

Roster::Roster(int workers, int servers) {
  for (int i = 0; i < workers; ++i) tasks_[{proto::WORKER, i}];
  for (int i = 0; i < servers; ++i) tasks_[{proto::PS, i}];
}

std::vector<TaskId> Roster::Present(proto::Role role) const {
  std::vector<TaskId> ids;
  for (const auto& [id, task] : tasks_) {
    if (id.role == role && !task.lost && !task.late) ids.push_back(id);
  }
  return ids;
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

std::vector<TaskId> Roster::FindSilent(Nanoseconds now, Nanoseconds patience) {
  const Nanoseconds pause = last_search_ == 0 ? 0 : now - last_search_;
  last_search_ = now;
  std::vector<TaskId> silent;
  for (auto& [id, task] : tasks_) {
    if (task.last_heard == 0 || task.gone) continue;
    if (pause > patience / 2) task.last_heard += pause;
    if (now - task.last_heard > patience) silent.push_back(id);
  }
  return silent;
}

int64_t Roster::UsualStep() const {
  std::vector<int64_t> steps;
  for (const auto& [id, task] : tasks_) {
    const bool there = task.last_heard != 0 && !task.gone && !task.lost && !task.late;
    if (id.role == proto::WORKER && there) steps.push_back(task.pace());
  }
  std::sort(steps.begin(), steps.end());
  return steps.empty() ? 0 : steps[steps.size() / 2];
}

std::vector<proto::LateTask> Roster::LateTasks(Nanoseconds now, bool own_pace) const {
  constexpr int64_t kFewSteps = 20;  // With fewer steps, no worker is called slow.
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

std::string Roster::Describe(TaskId id) const {
  const std::string& host = tasks_.at(id).member.host();
  return absl::StrCat(TaskName(id.role, id.index), host.empty() ? "" : absl::StrCat(" on ", host));
}

}  // namespace tethys
