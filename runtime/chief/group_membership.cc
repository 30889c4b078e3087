// How far the numbers of steps of the tasks can differ.
//
// The workers of a group are at most one step apart: a worker completes the collective of a step only with
// the contributions of all other workers, and a worker contributes to step t only after it has applied the t
// steps before. Let T be the highest number of steps that a worker of the group has applied. Then every
// worker has applied T or T - 1 steps, and the next group begins with the parameters of a worker with T
// steps. A worker with T - 1 steps lacks only the last of these steps and gets it by copying the parameters.
// If the only worker with T steps dies before the next group has formed, the next group makes this step
// again. That is why a step does not count as soon as one worker has recorded it (held_records.h).
//
// Servers are at most one step apart, too: a worker pushes step t only when all servers have answered its
// push of step t - 1, and an update needs the pushes of all workers. Let T be the lowest number of steps that
// a server has applied. A server can undo what it has received or applied after its first T steps, because
// this is at most one step. No worker has completed more than T steps, because a worker has completed a step
// only when all servers have answered the whole push.
//
// The same holds for the copies of shards: a server sends the last answers of a step only once the copy of
// its shards contains the step. A server begins step t + 1 only when every worker has all answers of step t,
// so all copies then contain t + 1 steps, and a copy keeps its last two versions (ps/shard_copy.h). Copies
// count even if their servers live: otherwise a copy that lacks the last step could not go back to T with the
// servers, and until it has T, the loss of its server would end the job.
//
// Invariant: the next group never begins with fewer steps than the number of steps that count.
#include "runtime/chief/group_membership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/cluster/job_plan.h"

namespace tethys {

GroupMembership::GroupMembership(const proto::JobPlan& plan, Roster& roster)
    : job_(plan.job()),
      rules_(GroupRulesOf(plan.job())),
      active_(FormsNewGroups(plan)),
      on_servers_(TraitsOf(plan.job()).servers()),
      placement_(plan.placement()),
      roster_(roster) {
  for (const auto& [id, task] : roster.tasks()) parts_[id];
}

namespace {

// Shortens a long text: cuts it between two words.
std::string ShortText(const std::string& text) {
  constexpr size_t kMost = 300;
  if (text.size() <= kMost) return text;
  return absl::StrCat(text.substr(0, text.rfind(' ', kMost)), " ...");
}

}  // namespace

// ------------------------------------------------------------------------------------------------- events

void GroupMembership::TrainingBegins() {
  for (auto& [task, part] : parts_) part.has_state = true;
}

void GroupMembership::OnLost(TaskId task, const std::string& text) {
  parts_.at(task) = {};
  last_lost_ = task;
  loss_text_ = text;
  // The loss explains why exchanges of other workers failed, so these failures no longer count. The reports
  // of the failures may have arrived before the chief noticed the loss.
  if (stage_ != Stage::kFormed) lost_ = true;
  failures_ = 0;
  blame_.clear();
}

void GroupMembership::OnHalted(TaskId id, const proto::Halted& halted) {
  Part& part = parts_.at(id);
  const bool unasked = part.asked == 0 || stage_ == Stage::kForming || !halted.reason().empty();
  part.halted = true;
  part.asked = 0;
  part.applied.reset();
  part.copy.reset();
  if (halted.has_applied()) part.applied = halted.applied();
  if (halted.has_copy()) part.copy = halted.copy();
  part.has_state = halted.has_applied();
  if (!unasked) return;
  if (reason_.empty()) {
    reason_ = absl::StrCat(roster_.Describe(id), ": ",
                           halted.reason().empty() ? "its exchange failed" : ShortText(halted.reason()));
  }
  // Only the first accusation within a group counts. A worker that leaves the group closes its connections,
  // and other workers then blame this worker, which may not have caused the failure.
  const TaskId suspect{proto::WORKER, halted.suspect()};
  if (accusing_ >= roster_.at(id).generation || !halted.has_suspect() || parts_.count(suspect) == 0) return;
  accusing_ = roster_.at(id).generation;
  ++blame_[suspect];
}

bool GroupMembership::OnFormed(TaskId task) {
  Part& part = parts_.at(task);
  part.has_state = true;
  if (stage_ != Stage::kForming) return false;
  part.asked = 0;
  const std::vector<TaskId> members = Members();
  const bool all = std::all_of(members.begin(), members.end(), [this](TaskId id) {
    return roster_.at(id).formed && !roster_.late(id) && !roster_.at(id).lost && !parts_.at(id).halted;
  });
  if (all) stage_ = Stage::kFormed;
  return all;
}

void GroupMembership::OnDelay(TaskId worker, Nanoseconds now) {
  const auto part = parts_.find(worker);
  if (part != parts_.end() && part->second.asked != 0) part->second.asked = now;
}

// ---------------------------------------------------------------------------------------------- decisions

std::vector<TaskId> GroupMembership::Members() const {
  std::vector<TaskId> members = roster_.Present(proto::WORKER);
  for (const TaskId server : roster_.Present(proto::PS)) members.push_back(server);
  return members;
}

std::vector<TaskId> GroupMembership::Living() const {
  std::vector<TaskId> living;
  for (const auto& [task, part] : parts_) {
    if (!roster_.at(task).lost) living.push_back(task);
  }
  return living;
}

std::vector<TaskId> GroupMembership::InGroup() const {
  std::vector<TaskId> members = Living();
  members.erase(std::remove_if(members.begin(), members.end(),
                               [this](TaskId id) { return roster_.at(id).generation == 0; }),
                members.end());
  return members;
}

bool GroupMembership::HasState(TaskId task) const { return parts_.at(task).has_state; }

bool GroupMembership::broken() const {
  for (const TaskId id : Members()) {
    if (roster_.at(id).lost || roster_.late(id) || parts_.at(id).halted) return true;
  }
  return false;
}

bool GroupMembership::grows() const {
  if (stage_ != Stage::kFormed) return false;
  const std::vector<TaskId> living = Living();
  return std::any_of(living.begin(), living.end(),
                     [this](TaskId id) { return roster_.late(id) && roster_.at(id).ready; });
}

void GroupMembership::Halt(int64_t counted, Nanoseconds now, Actions& actions) {
  TETHYS_CHECK(stage_ == Stage::kFormed || stage_ == Stage::kForming);
  const std::vector<TaskId> members = Members();
  const bool lost = std::any_of(members.begin(), members.end(),
                                [this](TaskId id) { return roster_.at(id).lost || roster_.late(id); });
  if (stage_ == Stage::kFormed) {
    began_ = now;
    lost_ = joins_ = false;
  }
  lost_ = lost_ || lost;
  joins_ = joins_ || reason_.empty();
  if (!lost && !reason_.empty()) NoteFailure(counted);
  stage_ = Stage::kHalting;
  proto::ToTask order;
  order.mutable_halt()->set_generation(roster_.membership().generation());
  for (const TaskId id : InGroup()) {
    Part& part = parts_.at(id);
    if (part.halted) continue;
    part.asked = now;
    actions.push_back(SendOrder{id, order});
  }
}

void GroupMembership::NoteFailure(int64_t counted) {
  if (failures_ > 0 && counted > counted_) {
    failures_ = 0;
    blame_.clear();
  }
  ++failures_;
  counted_ = counted;
}

absl::Status GroupMembership::CannotForm(const std::string& why) const {
  return absl::UnavailableError(absl::StrCat(loss_text_.empty() ? reason_ : loss_text_, "; ", why,
                                             ": --resume goes on from the last checkpoint"));
}

absl::Status GroupMembership::Proceed(int64_t counted, bool replaced, bool interrupted, Nanoseconds now,
                                      Actions& actions) {
  if (stage_ != Stage::kHalting && stage_ != Stage::kWaiting) return absl::OkStatus();
  if (failures_ > kTooManyFailures) {
    return CannotForm(absl::StrCat("exchanges failed ", failures_, " times in a row"));
  }
  std::vector<TaskId> workers;
  bool arrives = false;  // A replacement is being set up.
  for (const TaskId id : Living()) {
    const TaskState& task = roster_.at(id);
    if (task.generation != 0 && !parts_.at(id).halted) return absl::OkStatus();
    arrives = arrives || !task.ready;
    if (task.ready && id.role == proto::WORKER) workers.push_back(id);
  }
  const absl::optional<int64_t> next = NextStep();
  if (!next.has_value() || *next < counted) {
    return CannotForm(absl::StrCat("no other ", on_servers_ ? "server" : "worker",
                                   " has the parameters of step ", counted));
  }
  // The sample order of a sharded job depends on the number of workers. So a sharded job needs all its
  // workers even if the next group trains no further step.
  const bool any_number = interrupted && job_.data().sharding() == proto::Data::GLOBAL;
  if (const std::string missing = Missing(static_cast<int>(workers.size()), any_number); !missing.empty()) {
    return Wait(missing, replaced || arrives, now, actions);
  }
  step_ = *next;
  return Form(workers, now, actions);
}

bool GroupMembership::LacksShards(TaskId server) const {
  return server.index < ServersWithShards(placement_) && !parts_.at(server).applied.has_value();
}

absl::optional<int64_t> GroupMembership::StepsOf(TaskId task) const {
  const absl::optional<int64_t>& applied = parts_.at(task).applied;
  if (task.role != proto::PS) return applied;
  const absl::optional<int64_t>& copy = parts_.at({proto::PS, BackupOf(placement_, task.index)}).copy;
  if (LacksShards(task)) return copy;
  return applied.has_value() && copy.has_value() ? std::min(*applied, *copy) : applied;
}

absl::optional<int64_t> GroupMembership::NextStep() const {
  absl::optional<int64_t> step;
  for (const auto& [id, part] : parts_) {
    if (id.role != (on_servers_ ? proto::PS : proto::WORKER)) continue;
    const absl::optional<int64_t> steps = StepsOf(id);
    if (!steps.has_value() && on_servers_ && LacksShards(id)) return absl::nullopt;
    if (!steps.has_value()) continue;
    const int64_t so_far = step.value_or(*steps);
    step = on_servers_ ? std::min(so_far, *steps) : std::max(so_far, *steps);
  }
  return step;
}

std::string GroupMembership::Missing(int workers, bool any_number) const {
  for (const TaskId id : roster_.Present(proto::PS)) {
    const TaskState& server = roster_.at(id);
    if (server.lost || !server.ready) return absl::StrCat("server ", id.index, " is missing");
  }
  if (workers >= (any_number ? 1 : rules_.least_workers)) return "";
  const char* const rule = job_.elastic().has_min_workers() ? " (elastic.min_workers)"
                           : rules_.least_workers > 1       ? " (elastic.on_loss WAIT)"
                                                            : "";
  return absl::StrCat(workers, workers == 1 ? " worker is left" : " workers are left", ", and the job needs ",
                      rules_.least_workers, rule);
}

absl::Status GroupMembership::Wait(const std::string& missing, bool replaced, Nanoseconds now,
                                   Actions& actions) {
  if (!replaced) {
    return CannotForm(
        absl::StrCat(missing, "; max_restarts (", job_.max_restarts(), ") allows no replacement"));
  }
  if (stage_ != Stage::kWaiting) {
    stage_ = Stage::kWaiting;
    waiting_since_ = now;
    proto::ProgressEvent event;
    event.set_note(absl::StrCat(missing, ": training waits for a replacement"));
    actions.push_back(Report{std::move(event)});
  }
  if (now - waiting_since_ <= FromSeconds(rules_.wait_seconds)) return absl::OkStatus();
  return CannotForm(absl::StrCat(missing, "; no replacement was ready within ", rules_.wait_seconds,
                                 " s (elastic.wait_seconds)"));
}

absl::Status GroupMembership::Form(const std::vector<TaskId>& workers, Nanoseconds now, Actions& actions) {
  TETHYS_RETURN_IF_ERROR(roster_.Regroup(workers));
  stage_ = Stage::kForming;
  proto::ToTask order;
  proto::Form& form = *order.mutable_form();
  *form.mutable_group() = roster_.Group();
  form.set_step(step_);
  bool found = false;
  for (size_t rank = 0; rank < workers.size(); ++rank) {
    const bool has = parts_.at(workers[rank]).applied == step_;
    if (!has) form.add_behind(static_cast<int>(rank));
    if (has && !std::exchange(found, true)) form.set_source(static_cast<int>(rank));
  }
  for (const TaskId id : roster_.Present(proto::PS)) {
    if (LacksShards(id)) form.add_restored(id.index);
  }
  for (const TaskId id : Members()) {
    Part& part = parts_.at(id);
    part.halted = false;
    part.applied.reset();
    part.copy.reset();
    part.asked = now;
    TaskState& task = roster_.at(id);
    task.generation = roster_.membership().generation();
    task.formed = false;
    actions.push_back(SendOrder{id, order});
  }
  return absl::OkStatus();
}

bool GroupMembership::Spared(TaskId task, const std::vector<TaskId>& silent, Nanoseconds silence,
                             Nanoseconds now) const {
  const Nanoseconds quiet = now - roster_.at(task).last_heard - silence;
  const std::vector<TaskId> living = Living();
  const auto is_silent = [&silent](TaskId id) {
    return std::find(silent.begin(), silent.end(), id) != silent.end();
  };
  // Only its backup has the shards of a server.
  const bool others_have = std::any_of(living.begin(), living.end(), [&](TaskId id) {
    const bool may = task.role != proto::PS || id == TaskId{proto::PS, BackupOf(placement_, task.index)};
    return id != task && may && !is_silent(id) && HasState(id);
  });
  if (HasState(task) && !others_have && quiet <= kHolderPatience) return true;
  const auto quiet_ones = std::count_if(living.begin(), living.end(), is_silent);
  return 2 * static_cast<size_t>(quiet_ones) > living.size() && quiet <= kMajorityPatience;
}

absl::optional<TaskGivenUp> GroupMembership::Overdue(Nanoseconds to_leave, Nanoseconds to_join,
                                                     Nanoseconds now) const {
  const Nanoseconds patience = stage_ == Stage::kForming ? to_join : to_leave;
  const auto is_silent = [&](TaskId id) { return now - roster_.at(id).last_heard >= Roster::kSilent; };
  const std::vector<TaskId> living = Living();
  // Workers that join a group wait for its servers, which may be silent for a while (Spared).
  const bool servers_silent = std::any_of(living.begin(), living.end(),
                                          [&](TaskId id) { return id.role == proto::PS && is_silent(id); });
  for (const TaskId id : living) {
    const Nanoseconds asked = parts_.at(id).asked;
    const bool waits = id.role == proto::WORKER && servers_silent;
    if (asked == 0 || waits || is_silent(id) || now - asked <= patience) continue;
    return TaskGivenUp{id,
                       absl::StrCat("it did not ", stage_ == Stage::kForming ? "join the new" : "leave its",
                                    " group within ", ToSeconds(patience), " s")};
  }
  return absl::nullopt;
}

absl::optional<TaskGivenUp> GroupMembership::Blamed() const {
  if (stage_ != Stage::kHalting || failures_ < kMostFailures) return absl::nullopt;
  absl::optional<TaskId> most;
  const std::vector<TaskId> living = Living();
  for (const auto& [id, times] : blame_) {
    const bool others_have = std::any_of(living.begin(), living.end(), [&, id = id](TaskId other) {
      return other != id && other.role == proto::WORKER && HasState(other);
    });
    if (roster_.at(id).lost || roster_.at(id).generation == 0 || !others_have) continue;
    if (!most.has_value() || times >= blame_.at(*most)) most = id;
  }
  if (!most.has_value()) return absl::nullopt;
  return TaskGivenUp{*most,
                     absl::StrCat("exchanges with it failed ", failures_, " times in a row (", reason_, ")")};
}

// -------------------------------------------------------------------------------- after the group has formed

const proto::GroupChange& GroupMembership::Changed(int64_t again, int64_t unrecorded, Nanoseconds now,
                                                   Nanoseconds started) {
  proto::GroupChange& change = *changes_.Add();
  change.set_generation(roster_.membership().generation());
  change.set_seconds(ToSeconds(now - started));
  change.set_step(step_);
  for (const TaskId id : roster_.Present(proto::WORKER)) change.add_worker(id.index);
  change.set_stall_seconds(ToSeconds(now - began_));
  change.set_steps_again(again);
  change.set_unrecorded_samples(unrecorded);
  change.set_cause(lost_ ? loss_text_ : joins_ || reason_.empty() ? "a replacement joined" : reason_);
  reason_.clear();
  lost_ = joins_ = false;
  return change;
}

}  // namespace tethys
