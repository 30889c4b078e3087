#include "runtime/cluster/membership.h"

#include <algorithm>
#include <utility>

#include "runtime/cluster/job_plan.h"
#include "runtime/cluster/sample_order.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

std::string NameOf(TaskId task) { return TaskName(task.role, task.index); }

template <typename... Words>
absl::Status Refusal(const Words&... words) {
  return absl::FailedPreconditionError(absl::StrCat(words...));
}

}  // namespace

Membership Membership::Of(const proto::JobPlan& plan) {
  const ShapeTraits& traits = TraitsOf(plan.job());
  Membership first;
  first.leased_ = traits.leases();
  first.sharded_ = ShardingOf(plan) != proto::Data::GLOBAL;
  first.workers_ = plan.job().workers();
  for (int i = 0; i < plan.job().workers(); ++i) first.seats_[{proto::WORKER, i}].member = true;
  for (int i = 0; i < plan.placement().servers(); ++i) first.seats_[{proto::PS, i}].member = true;
  first.placement_ = std::make_shared<const proto::Placement>(plan.placement());
  return first;
}

absl::StatusOr<Membership> Membership::Add(TaskId task, uint32_t incarnation) const {
  TETHYS_RETURN_IF_ERROR(CheckTask(task));
  if (Has(task)) return Refusal(NameOf(task), " is a member already");
  TETHYS_RETURN_IF_ERROR(CheckNewer(task, incarnation));
  TETHYS_RETURN_IF_ERROR(CheckResize(task));
  TETHYS_ASSIGN_OR_RETURN(Membership next, Next(task));
  next.seats_.at(task) = {.member = true, .incarnation = incarnation};
  return next;
}

absl::StatusOr<Membership> Membership::Remove(TaskId task) const {
  TETHYS_RETURN_IF_ERROR(CheckTask(task));
  if (!Has(task)) return Refusal(NameOf(task), " is no member");
  TETHYS_RETURN_IF_ERROR(CheckResize(task));
  if (task.role == proto::WORKER && !leased_ && Count(proto::WORKER) == 1) {
    return Refusal(NameOf(task), " is the last worker, and has the only copy of the state");
  }
  TETHYS_ASSIGN_OR_RETURN(Membership next, Next(task));
  next.seats_.at(task).member = false;
  TETHYS_RETURN_IF_ERROR(next.CheckPlaces());
  return next;
}

absl::StatusOr<Membership> Membership::Replace(TaskId task, uint32_t incarnation) const {
  TETHYS_RETURN_IF_ERROR(CheckTask(task));
  if (!Has(task)) return Refusal(NameOf(task), " is no member");
  TETHYS_RETURN_IF_ERROR(CheckNewer(task, incarnation));
  TETHYS_ASSIGN_OR_RETURN(Membership next, Next(task));
  next.seats_.at(task).incarnation = incarnation;
  return next;
}

absl::StatusOr<Membership> Membership::Regroup(const std::map<TaskId, uint32_t>& tasks) const {
  const auto workers = static_cast<int>(std::count_if(
      tasks.begin(), tasks.end(), [](const auto& entry) { return entry.first.role == proto::WORKER; }));
  if (leased_) return Refusal("workers on leases form no groups");
  if (workers == 0) return Refusal("a group needs a worker");
  if (sharded_ && workers != workers_) {
    return Refusal("samples are sharded over ", workers_, " workers, and the group has ", workers);
  }
  TETHYS_ASSIGN_OR_RETURN(Membership next, NextGeneration());
  for (auto& [task, seat] : next.seats_) {
    if (task.role == proto::WORKER) seat.member = false;
  }
  for (const auto& [task, incarnation] : tasks) {
    TETHYS_RETURN_IF_ERROR(CheckTask(task));
    if (incarnation != IncarnationOf(task)) TETHYS_RETURN_IF_ERROR(CheckNewer(task, incarnation));
    next.seats_.at(task) = {.member = true, .incarnation = incarnation};
  }
  return next;
}

absl::StatusOr<Membership> Membership::Place(const proto::Placement& placement) const {
  bool same = placement.shard_size() == placement_->shard_size();
  for (int i = 0; same && i < placement.shard_size(); ++i) {
    proto::Shard shard = placement.shard(i);
    shard.set_server(placement_->shard(i).server());
    same = shard.SerializeAsString() == placement_->shard(i).SerializeAsString();
  }
  if (!same) return Refusal("the placement's shards are not the shards of the job");
  TETHYS_ASSIGN_OR_RETURN(Membership next, NextGeneration());
  next.placement_ = std::make_shared<const proto::Placement>(placement);
  next.moved_ = true;
  TETHYS_RETURN_IF_ERROR(next.CheckPlaces());
  return next;
}

absl::Status Membership::CheckTask(TaskId task) const {
  if (seats_.count(task) > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("this job has no ", NameOf(task)));
}

absl::Status Membership::CheckNewer(TaskId task, uint32_t incarnation) const {
  const uint32_t newest = IncarnationOf(task);
  if (incarnation > newest) return absl::OkStatus();
  return Refusal("incarnation ", incarnation, " of ", NameOf(task), " is not newer than ", newest);
}

absl::Status Membership::CheckResize(TaskId task) const {
  if (task.role != proto::WORKER || leased_ || !sharded_) return absl::OkStatus();
  return Refusal("samples are sharded over ", workers_,
                 " workers: a worker can be replaced, but not added or removed");
}

absl::Status Membership::CheckPlaces() const {
  for (const proto::Shard& shard : placement_->shard()) {
    const TaskId server{proto::PS, shard.server()};
    if (seats_.count(server) == 0 || !Has(server)) {
      return Refusal("shards are placed on ", NameOf(server), ", which is no member");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Membership> Membership::Next(TaskId task) const {
  const bool first = Has(task) && IncarnationOf(task) == 0;
  return first || leased_ ? absl::StatusOr<Membership>(*this) : NextGeneration();
}

absl::StatusOr<Membership> Membership::NextGeneration() const {
  Membership next = *this;
  if ((generation_ & kMostChanges) == kMostChanges)
    return Refusal("members have changed ", kMostChanges, " times");
  ++next.generation_;
  return next;
}

bool Membership::Has(TaskId task) const {
  const auto seat = seats_.find(task);
  return seat != seats_.end() && seat->second.member;
}

std::vector<TaskId> Membership::Members(proto::Role role) const {
  std::vector<TaskId> members;
  for (const auto& [task, seat] : seats_) {
    if (task.role == role && seat.member) members.push_back(task);
  }
  return members;
}

int Membership::RankOf(TaskId task) const {
  TETHYS_CHECK(Has(task), NameOf(task), " is no member");
  return static_cast<int>(std::count_if(seats_.begin(), seats_.find(task), [&](const auto& entry) {
    return entry.first.role == task.role && entry.second.member;
  }));
}

int Membership::shares() const { return leased_ ? workers_ : Count(proto::WORKER); }

void Membership::Save(proto::MembershipState& state) const {
  state.set_generation(generation_);
  for (const auto& [task, seat] : seats_) {
    proto::MembershipState::Seat& saved = *state.add_seat();
    saved.mutable_task()->set_role(task.role);
    saved.mutable_task()->set_index(task.index);
    saved.set_member(seat.member);
    saved.set_incarnation(seat.incarnation);
  }
  if (moved_) *state.mutable_placement() = *placement_;
}

absl::StatusOr<Membership> Membership::Restore(const proto::JobPlan& plan,
                                               const proto::MembershipState& state) {
  Membership restored = Of(plan);
  if (state.seat_size() != static_cast<int>(restored.seats_.size())) {
    return absl::InvalidArgumentError(absl::StrCat("the saved membership has ", state.seat_size(),
                                                   " tasks, but the job has ", restored.seats_.size()));
  }
  if ((state.generation() & kMostChanges) == 0)
    return absl::InvalidArgumentError("the saved membership has no generation");
  auto seat = restored.seats_.begin();
  for (const proto::MembershipState::Seat& saved : state.seat()) {
    const TaskId task = seat->first;
    if (TaskId{saved.task().role(), saved.task().index()} != task) {
      return absl::InvalidArgumentError(absl::StrCat("the saved membership has the task ",
                                                     saved.task().ShortDebugString(), " in place of ",
                                                     NameOf(task)));
    }
    seat->second = {.member = saved.member(), .incarnation = saved.incarnation()};
    ++seat;
  }
  if (state.has_placement()) {
    absl::StatusOr<Membership> placed = restored.Place(state.placement());
    if (!placed.ok()) return absl::InvalidArgumentError(placed.status().message());
    restored = *std::move(placed);
  }
  restored.generation_ = state.generation();
  if (const absl::Status places = restored.CheckPlaces(); !places.ok()) {
    return absl::InvalidArgumentError(places.message());
  }
  if (!restored.leased_ && restored.Count(proto::WORKER) == 0) {
    return absl::InvalidArgumentError("it has no worker");
  }
  return restored;
}

}  // namespace tethys
