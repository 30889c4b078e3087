#include "runtime/chief/server_membership.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "runtime/chief/saved_values.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/shape/job_shape.h"

namespace tethys {

static_assert(static_cast<int>(ServerMembership::Stage::kForming) == proto::ServerMembershipState::FORMING);

ServerMembership::ServerMembership(const proto::JobPlan& plan, Roster& roster)
    : active_(CopiesShards(plan) && TraitsOf(plan.job()).leases()),
      placement_(plan.placement()),
      roster_(roster),
      generation_(Membership::kFirstGeneration),
      parts_(active_ ? plan.placement().servers() : 0) {}

// ------------------------------------------------------------------------------------------------- events

void ServerMembership::OnLost(TaskId server, const std::string& text) {
  Part& part = at(server);
  part = {.has_values = false, .reported = std::move(part.reported)};
  last_lost_ = server;
  loss_text_ = text;
  failures_ = 0;
}

void ServerMembership::OnHalted(TaskId server, const proto::Halted& halted) {
  Part& part = at(server);
  part.halted = true;
  part.asked = 0;
  part.has_copy = halted.has_copy();
  if (halted.reason().empty()) return;
  ++failures_;
  reason_ = absl::StrCat(roster_.Describe(server), ": ", halted.reason());
}

bool ServerMembership::OnFormed(TaskId server) {
  Part& part = at(server);
  part.asked = 0;
  part.has_values = true;
  if (stage_ != Stage::kForming) return false;
  const bool all = absl::c_all_of(roster_.Present(proto::PS), [this](TaskId id) {
    return roster_.at(id).formed && !roster_.late(id) && !roster_.at(id).lost && !at(id).halted;
  });
  if (all) stage_ = Stage::kFormed;
  return all;
}

bool ServerMembership::IsNew(TaskId server, const proto::AppliedPush& push) {
  Push& last = at(server).reported[push.worker()];
  const Push reported{push.incarnation(), push.sequence()};
  if (reported <= last) return false;
  last = reported;
  return true;
}

// ---------------------------------------------------------------------------------------------- decisions

bool ServerMembership::broken() const {
  return active_ && absl::c_any_of(roster_.Present(proto::PS), [this](TaskId id) {
           return roster_.at(id).lost || roster_.late(id) || at(id).halted;
         });
}

void ServerMembership::Halt(Nanoseconds now, Actions& actions) {
  TETHYS_CHECK(stage_ == Stage::kFormed || stage_ == Stage::kForming);
  if (stage_ == Stage::kFormed) waiting_since_ = now;
  stage_ = Stage::kHalting;
  proto::ToTask order;
  order.mutable_halt()->set_generation(generation_);
  for (const TaskId id : roster_.Present(proto::PS)) {
    Part& part = at(id);
    if (roster_.at(id).lost || roster_.at(id).generation == 0 || part.halted) continue;
    part.asked = now;
    actions.push_back(SendOrder{id, order});
  }
}

absl::Status ServerMembership::Lost(const std::string& why) const {
  return absl::UnavailableError(
      absl::StrCat(loss_text_, "; ", why, ": --resume goes on from the last checkpoint"));
}

absl::Status ServerMembership::Proceed(bool replaced, const std::vector<proto::Fence>& fences,
                                       Nanoseconds patience, Nanoseconds now, Actions& actions) {
  if (stage_ != Stage::kHalting) return absl::OkStatus();
  if (failures_ > kMostFailures) return Lost(reason_);
  const std::vector<TaskId> servers = roster_.Present(proto::PS);
  bool missing = false;
  for (const TaskId id : servers) {
    const TaskState& task = roster_.at(id);
    if (!task.lost && task.generation != 0 && !at(id).halted) return absl::OkStatus();
    if (task.lost && !replaced) return Lost("max_restarts allows no replacement");
    missing = missing || task.lost || !task.ready;
  }
  proto::ToTask order;
  proto::Form& form = *order.mutable_form();
  for (const TaskId id : servers) {
    if (at(id).has_values || id.index >= ServersWithShards(placement_)) continue;
    const TaskId backup{proto::PS, BackupOf(placement_, id.index)};
    if (!at(backup).has_copy) {
      return Lost(absl::StrCat("server ", backup.index,
                               ", which is to have the copy of the shards of server ", id.index,
                               ", has none"));
    }
    form.add_restored(id.index);
  }
  if (missing) {
    if (now - waiting_since_ <= patience) return absl::OkStatus();
    return Lost(absl::StrCat("no replacement was ready within ", ToSeconds(patience), " s (timeouts.start)"));
  }
  ++generation_;
  stage_ = Stage::kForming;
  for (const TaskId id : servers) {
    if (roster_.late(id)) roster_.TakesPart(id);
  }
  *form.mutable_group() = roster_.Group();
  form.mutable_group()->set_generation(generation_);
  for (const proto::Fence& fence : fences) *form.add_fence() = fence;
  for (const TaskId id : servers) {
    Part& part = at(id);
    part.halted = part.has_copy = false;
    part.asked = now;
    roster_.at(id).generation = generation_;
    roster_.at(id).formed = false;
    actions.push_back(SendOrder{id, order});
  }
  return absl::OkStatus();
}

bool ServerMembership::Spared(TaskId server, const std::vector<TaskId>& silent, Nanoseconds silence,
                              Nanoseconds now) const {
  const TaskId backup{proto::PS, BackupOf(placement_, server.index)};
  return absl::c_linear_search(silent, backup) &&
         now - roster_.at(server).last_heard - silence <= kHolderPatience;
}

absl::optional<TaskGivenUp> ServerMembership::Overdue(Nanoseconds to_leave, Nanoseconds to_join,
                                                      Nanoseconds now) const {
  if (!active_) return absl::nullopt;
  const bool forms = stage_ == Stage::kForming;
  const Nanoseconds patience = forms ? to_join : to_leave;
  for (const TaskId id : roster_.Present(proto::PS)) {
    const Nanoseconds asked = at(id).asked;
    const bool silent = now - roster_.at(id).last_heard >= Roster::kSilent;
    if (roster_.at(id).lost || asked == 0 || silent || now - asked <= patience) continue;
    return TaskGivenUp{id, absl::StrCat("it did not ", forms ? "join the new" : "leave its", " group within ",
                                        ToSeconds(patience), " s")};
  }
  return absl::nullopt;
}

// --------------------------------------------------------------------------------------------------- state

void ServerMembership::Save(proto::ServerMembershipState& state) const {
  if (!active_) return;
  state.set_stage(static_cast<proto::ServerMembershipState::Stage>(stage_));
  state.set_generation(generation_);
  for (const Part& part : parts_) {
    proto::ServerMembershipState::Part& saved = *state.add_part();
    saved.set_has_values(part.has_values);
    saved.set_halted(part.halted);
    saved.set_has_copy(part.has_copy);
    saved.set_asked_ns(part.asked);
    for (const auto& [worker, push] : part.reported) {
      proto::ServerMembershipState::Reported& reported = *saved.add_reported();
      reported.set_worker(worker);
      reported.set_incarnation(push.first);
      reported.set_sequence(push.second);
    }
  }
  state.set_waiting_since_ns(waiting_since_);
  state.set_failures(failures_);
  Put(last_lost_, *state.mutable_last_lost());
  state.set_loss_text(loss_text_);
  state.set_reason(reason_);
}

absl::Status ServerMembership::Restore(const proto::ServerMembershipState& state) {
  if (!active_) return absl::OkStatus();
  StateCheck check;
  check.That(proto::ServerMembershipState::Stage_IsValid(state.stage()), "there is no stage ", state.stage());
  check.That(state.part_size() == static_cast<int>(parts_.size()), "it is of ", state.part_size(),
             " servers, the job has ", parts_.size());
  check.That(state.generation() >= Membership::kFirstGeneration, "the servers have no generation");
  check.Time("waiting_since_ns", state.waiting_since_ns());
  check.Within("failures", state.failures(), 0, 1 << 30);
  const TaskId lost = TaskOf(state.last_lost());
  check.That(lost.role == proto::ROLE_UNKNOWN || (lost.role == proto::PS && roster_.Has(lost)),
             "no such server was lost");
  std::vector<Part> parts;
  for (const proto::ServerMembershipState::Part& saved : state.part()) {
    check.Time("asked_ns", saved.asked_ns());
    parts.push_back({.has_values = saved.has_values(),
                     .halted = saved.halted(),
                     .has_copy = saved.has_copy(),
                     .asked = saved.asked_ns()});
    for (const proto::ServerMembershipState::Reported& reported : saved.reported()) {
      check.That(roster_.Has({proto::WORKER, reported.worker()}), "there is no worker ", reported.worker());
      parts.back().reported[reported.worker()] = {reported.incarnation(), reported.sequence()};
    }
  }
  TETHYS_RETURN_IF_ERROR(check.status());
  stage_ = static_cast<Stage>(state.stage());
  generation_ = state.generation();
  parts_ = std::move(parts);
  waiting_since_ = state.waiting_since_ns();
  failures_ = state.failures();
  last_lost_ = lost;
  loss_text_ = state.loss_text();
  reason_ = state.reason();
  return absl::OkStatus();
}

}  // namespace tethys
