// How a trainer leaves a group of workers and joins the next one.
//
//   trains --an exchange fails, or Halt interrupts it (Left)--> has left: waits for JoinGroup
//   JoinGroup: leave the old strategy; connect; copy from the source if this worker is behind; attach
//
// In a job with servers nothing is copied: attaching fetches all parameters from the servers.
//
// If GPUs exchange among themselves, up to two steps are in flight when the worker leaves. HaltSteps makes
// certain which of them the GPU makes, before the worker tells the chief its number of steps. Their work ends
// in JoinGroup, because it must not end before all members have halted their steps (runtime/strategy.h).
//
// Invariant: `applied_`, parameters and slots change together, after a step of all ranks or after a whole
// copy.
#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "collectives/suspect.h"
#include "runtime/optim/optimizer.h"
#include "workers/device_memory.h"
#include "workers/strategy_factory.h"
#include "workers/trainer.h"

namespace tethys {
namespace {

// True if an error of an exchange means that the group of workers is broken. Other errors are failures of
// this worker or of the job.
bool BreaksGroup(const absl::Status& error) {
  switch (error.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kCancelled:  // Another worker has reported its end.
    case absl::StatusCode::kDataLoss:
      return true;
    default:
      return false;
  }
}

}  // namespace

absl::Status Trainer::JoinGroup(const proto::Form& form, RingListener& listener, proto::Formed& formed) {
  trouble_ = TaskLife::Trouble::kFailure;
  const StateCopy copy{.step = form.step(),
                       .source = form.source(),
                       .behind = {form.behind().begin(), form.behind().end()},
                       .parts = 1 + static_cast<int64_t>(SlotsOf(setup_.plan().job().optimizer()).size()),
                       .elements = replica_->arena_size(),
                       .statistics = replica_->statistics_size()};
  const WorkerPlace place = PlaceIn(form.group(), task_.index);
  const bool behind = copy.is_behind(place.rank);
  TETHYS_RETURN_IF_ERROR(LeaveGroup(behind && applied_.has_value() && *applied_ + 1 == form.step()));
  group_ = form.group();
  place_ = place;
  TETHYS_RETURN_IF_ERROR(CheckForm(form));
  if (outlives_groups_) {
    const int64_t batch = setup_.plan().global_batch();
    TETHYS_RETURN_IF_ERROR(replica_->FitRows((batch + place_.world - 1) / place_.world));
  }
  StagedState staged;
  Nanoseconds copy_ns = 0;
  const absl::Status connected = Connect(form, listener, copy, staged, copy_ns);
  // In the first group of a job no member has parameters yet, so a new group could not continue, and an error
  // is a failure of this worker.
  if (!connected.ok()) return Left(connected, applied_.has_value() || behind);
  if (behind) TETHYS_RETURN_IF_ERROR(Commit(form.step(), staged));
  if (!applied_.has_value()) {
    TETHYS_RETURN_IF_ERROR(TakeParameters());
    applied_ = setup_.state().step();
  }
  formed.set_copy_ns(copy.takes_part(place_.rank) ? copy_ns : 0);
  formed.set_exchange(replica_->strategy()->Describe());
  return absl::OkStatus();
}

absl::Status Trainer::CheckForm(const proto::Form& form) const {
  if (place_.rank == WorkerPlace::kNone) {
    return absl::InternalError(
        absl::StrCat("group ", group_.generation(), ", which the chief formed, lacks this worker"));
  }
  const bool behind = absl::c_linear_search(form.behind(), place_.rank);
  if (behind || !applied_.has_value() || *applied_ == form.step()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the chief says that this worker has the parameters of step ",
                                          form.step(), ", but it has those of step ", *applied_));
}

// Now that the chief forms a new group, every member of the former group has halted its steps, or is lost.
absl::Status Trainer::LeaveGroup(bool behind) {
  TETHYS_RETURN_IF_ERROR(replica_->EndWork());
  halted_ = false;
  if (!behind) statistics_ahead_.reset();
  if (behind && replica_->computed_step() == applied_ && replica_->statistics_size() > 0) {
    TETHYS_ASSIGN_OR_RETURN(statistics_ahead_, replica_->StatisticsOfComputedStep());
  }
  watch_.reset();
  // An interrupted strategy sends no messages to the workers of the old group, some of which may be lost.
  if (replica_->strategy() != nullptr) {
    replica_->strategy()->Interrupt(absl::AbortedError("the group of workers was replaced"));
  }
  replica_->Detach();
  return absl::OkStatus();
}

absl::Status Trainer::Connect(const proto::Form& form, RingListener& listener, const StateCopy& copy,
                              StagedState& staged, Nanoseconds& copy_ns) {
  // The strategy of the earlier group, which used the earlier interruption, has been destroyed.
  Interruption& interruption = interruption_.Begin(group_.generation());
  const bool first = !applied_.has_value() && !copy.is_behind(place_.rank);
  const Nanoseconds deadline =
      first ? ready_before_ : clock_.Now() + FromSeconds(setup_.plan().job().timeouts().start());
  GroupHandover handover{.slots = slots_, .interruption = &interruption, .moves = &interruption_.moves()};
  handover.connected = [&](Communicator& group) {
    const Nanoseconds begin = clock_.Now();
    const absl::Status copied = Copy(group, copy, staged);
    copy_ns = clock_.Now() - begin;
    return copied;
  };
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Strategy> strategy,
                          CreateStrategy(
                              task_, setup_.plan(), form.group(), *replica_, listener, clock_, deadline,
                              [this] { return session_.peers_compute(); }, std::move(handover)));
  // Until the strategy is attached, an interruption stops only the strategy's communicators.
  TETHYS_RETURN_IF_ERROR(replica_->Attach(std::move(strategy), /*warm_up=*/!warm_));
  warm_ = true;
  watch_ = std::make_unique<Interruption::Watch>(
      &interruption,
      [attached = replica_->strategy().get()](const absl::Status& status) { attached->Interrupt(status); });
  return absl::OkStatus();
}

absl::Status Trainer::Copy(Communicator& group, const StateCopy& copy, StagedState& staged) {
  if (copy.behind.empty()) return absl::OkStatus();
  absl::optional<std::vector<float>> statistics;
  if (statistics_ahead_.has_value()) {
    statistics = statistics_ahead_;
  } else if (applied_.has_value()) {
    TETHYS_ASSIGN_OR_RETURN(statistics, replica_->ReadStatistics());
  }
  // No strategy is attached, so the replica itself has no slots.
  std::vector<absl::Span<float>> parts = replica_->Parts();
  for (const absl::Span<float> slot : slots_->spans()) parts.push_back(slot);
  return CopyState(
      group, copy,
      [&](int64_t part, absl::FunctionRef<absl::Status(absl::Span<const float>)> use) -> absl::Status {
        if (part >= static_cast<int64_t>(parts.size())) {
          return absl::InternalError("the chief ordered this worker to send slots that it does not have");
        }
        return ReadDeviceMemory(replica_->device(), replica_->stream(), parts[part], use);
      },
      statistics.has_value() ? &*statistics : nullptr, staged);
}

absl::Status Trainer::Commit(int64_t step, const StagedState& staged) {
  TETHYS_CHECK(on_servers_ || staged.parts.size() == replica_->Parts().size());
  for (size_t part = 0; part < staged.parts.size(); ++part) {
    TETHYS_RETURN_IF_ERROR(replica_->FillPart(part, [&](absl::Span<float> values) {
      absl::c_copy(staged.parts[part].span(), values.begin());
      return absl::OkStatus();
    }));
  }
  TETHYS_RETURN_IF_ERROR(CommitStatistics(staged));
  statistics_ahead_.reset();
  applied_ = steps_ = step;
  return absl::OkStatus();
}

absl::Status Trainer::CommitStatistics(const StagedState& staged) {
  if (statistics_ahead_.has_value()) return replica_->SetStatistics(*statistics_ahead_);
  if (applied_.has_value()) return absl::OkStatus();
  if (on_servers_) return TakeParameters();
  return staged.mean_statistics.empty() ? absl::OkStatus() : replica_->SetStatistics(staged.mean_statistics);
}

absl::Status Trainer::Left(const absl::Status& failed, bool may_be_broken) {
  trouble_ = TaskLife::Trouble::kFailure;
  if (!outlives_groups_ || !BreaksGroup(failed)) return failed;
  if (!interruption_.Check().ok()) {
    trouble_ = TaskLife::Trouble::kHalted;
  } else if (may_be_broken) {
    trouble_ = TaskLife::Trouble::kBroken;
    broken_ = failed;
  }
  if (applied_.has_value()) steps_ = *applied_;
  return failed;
}

absl::Status Trainer::InGroup(absl::FunctionRef<absl::Status()> work) {
  const absl::Status done = work();
  if (!outlives_groups_) return done;
  if (BreaksGroup(done)) {
    TETHYS_RETURN_IF_ERROR(HaltSteps());
  } else {
    CountSteps();
  }
  return done.ok() ? done : Failed(done);
}

void Trainer::CountSteps() {
  const absl::optional<int64_t> made = replica_->made_step();
  if (!made.has_value()) return;
  if (applied_ != *made + 1) statistics_ahead_.reset();
  applied_ = *made + 1;
}

absl::Status Trainer::HaltSteps() {
  halted_ = true;
  TETHYS_RETURN_IF_ERROR(replica_->HaltSteps());
  CountSteps();
  return absl::OkStatus();
}

absl::Status Trainer::Failed(const absl::Status& failed) {
  // If the exchange has failed, Refresh returns its error. Otherwise `failed` is an error of the data, the
  // device or the recorder.
  return Left(failed, BreaksGroup(replica_->strategy()->Refresh()));
}

void Trainer::FillHalted(proto::Halted& halted) {
  if (applied_.has_value()) halted.set_applied(*applied_);
  if (std::exchange(trouble_, TaskLife::Trouble::kFailure) != TaskLife::Trouble::kBroken) return;
  halted.set_reason(std::string(broken_.message()));
  // If a server's answer is late, the server may be waiting for another worker's gradients, so this worker
  // names no suspect.
  if (on_servers_) {
    if (absl::IsUnavailable(broken_)) halted.set_suspect(task_.index);
    return;
  }
  const std::string suspect = SuspectOf(broken_);
  for (const proto::Member& member : group_.member()) {
    const bool worker = member.role() == proto::WORKER;
    if (worker && absl::StrContains(suspect, MemberName(member))) halted.set_suspect(member.index());
  }
}

absl::Status Trainer::MayGoOn(bool halted) {
  const absl::Status halt = interruption_.Check();
  if (!halted && halt.ok()) return absl::OkStatus();
  if (outlives_groups_) TETHYS_RETURN_IF_ERROR(HaltSteps());
  trouble_ = TaskLife::Trouble::kHalted;
  if (applied_.has_value()) steps_ = *applied_;
  return halt.ok() ? absl::AbortedError("the chief halted the group of workers") : halt;
}

}  // namespace tethys
