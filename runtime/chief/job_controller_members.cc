// Who belongs to the job: joining, being set up, being lost and, where the consistency allows it, being
// replaced.
//
//   lost -> fenced on every server -> its batches settled        the others go on meanwhile
//   joins again -> set up, once the old one is fenced -> ready -> enrolled on every server -> takes part
#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "runtime/chief/job_controller.h"
#include "runtime/chief/journal.h"
#include "runtime/cluster/job_plan.h"

namespace tethys {
namespace {

constexpr int kMaxExchangeText = 1024;
constexpr int kMaxSamplesPerBeat = 16;  // An honest task sends two.
// How long a failure that looks like an echo waits for its cause.
constexpr Nanoseconds kEchoPatience = 500 * kMillisecond;

bool LooksLikeEcho(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsAborted(status) ||
         absl::IsCancelled(status);
}

}  // namespace

// ---------------------------------------------------------------------------------------------- joining

absl::Status JobController::Admit(TaskId id, uint32_t incarnation, Nanoseconds now) {
  const auto it = tasks_.find(id);
  if (it == tasks_.end()) {
    return absl::InvalidArgumentError(absl::StrCat("this job has no ", TaskName(id.role, id.index)));
  }
  TaskState& task = it->second;
  const bool first = task.last_heard == 0 && !task.lost;
  if (first && phase_ == Phase::kGather) {
    task.member.set_role(id.role);
    task.member.set_index(id.index);
    task.member.set_incarnation(incarnation);
    task.last_heard = now;
    return absl::OkStatus();
  }
  // A newer life of a worker proves the end of the older one, which may not have been noticed yet.
  const uint32_t newest = std::max(task.member.incarnation(), task.candidate);
  if (Survives(id) && phase_ < Phase::kStopping && incarnation > newest) {
    task.candidate = incarnation;
    return absl::OkStatus();
  }
  if (!first)
    return absl::AlreadyExistsError(absl::StrCat(TaskName(id.role, id.index), " has joined already"));
  return absl::AbortedError("the job no longer takes members");
}

bool JobController::Concerns(TaskId id, uint32_t incarnation, const proto::FromTask& message) const {
  const TaskState& task = tasks_.at(id);
  if (incarnation == task.member.incarnation()) return !task.lost;
  return incarnation == task.candidate && message.has_join();
}

void JobController::OnJoin(TaskId id, uint32_t incarnation, const proto::Join& join, Nanoseconds now,
                           Actions& actions) {
  TaskState& task = tasks_.at(id);
  if (incarnation != task.member.incarnation()) {
    if (!task.lost) Lose(id, "a newer process has taken its place", now, actions);
    if (phase_ >= Phase::kStopping) return;
    task.lost = task.gone = task.ready = task.joined = false;
    task.late = phase_ > Phase::kServerSetup;
    task.member.set_role(id.role);
    task.member.set_index(id.index);
    task.member.set_incarnation(incarnation);
    task.last_heard = now;
    task.step = 0;
  } else if (phase_ != Phase::kGather) {
    return;
  }
  if (task.joined) return;
  task.joined = true;
  task.member.set_host(join.host());
  task.member.set_data_address(join.data_address());
  actions.push_back(WriteJournal{journal::Member(task.member)});
  if (task.late && task.fences_open == 0) SetUp({id}, actions);
  Advance(now, actions);
}

void JobController::SetUpAll(proto::Role role, Actions& actions) {
  phase_ = role == proto::PS ? Phase::kServerSetup : Phase::kWorkerSetup;
  SetUp(Tasks(role), actions);
  if (role != proto::WORKER) return;
  // Servers are there now; they count every worker until they are told otherwise.
  for (const auto& [id, task] : tasks_) {
    if (task.lost) SendFence(id, false, actions);
  }
}

void JobController::SetUp(const std::vector<TaskId>& ids, Actions& actions) {
  proto::ToTask order;
  proto::Setup& setup = *order.mutable_setup();
  *setup.mutable_plan() = plan_;
  setup.set_generation(1);
  setup.set_restore(restore_);
  *setup.mutable_state() = state_;
  for (const auto& [id, task] : tasks_) {
    if (!task.lost) *setup.add_member() = task.member;
  }
  for (const TaskId id : ids) Send(id, order, actions);
}

void JobController::OnReady(TaskId id, const proto::Ready& ready, Nanoseconds now, Actions& actions) {
  TaskState& task = tasks_.at(id);
  task.ready = true;
  task.setup_ns = ready.setup_ns();
  if (!ready.exchange().empty()) summary_.set_exchange(ready.exchange().substr(0, kMaxExchangeText));
  if (task.late) return SendFence(id, true, actions);
  Advance(now, actions);
}

void JobController::OnHeartbeat(TaskId id, const proto::Heartbeat& heartbeat, Nanoseconds now,
                                Actions& actions) {
  TaskState& task = tasks_.at(id);
  task.heartbeat = heartbeat;
  task.step = std::max(task.step, heartbeat.step());
  if (!heartbeat.resources().empty() && heartbeat.resources_size() <= kMaxSamplesPerBeat) {
    actions.push_back(
        KeepResources{id, task.member.host(), heartbeat.resources(), heartbeat.clock_offset_ns()});
  }
  proto::ToTask order;
  order.mutable_pong()->set_sent_ns(heartbeat.sent_ns());
  order.mutable_pong()->set_chief_ns(now);
  Send(id, std::move(order), actions);
}

// ------------------------------------------------------------------------------------- losses and fences

bool JobController::Survives(TaskId id) const { return planner_.leased() && id.role == proto::WORKER; }

void JobController::Lose(TaskId id, const std::string& reason, Nanoseconds now, Actions& actions) {
  TaskState& task = tasks_.at(id);
  actions.push_back(WriteJournal{journal::Lost(id.role, id.index, reason)});
  const std::string text = absl::StrCat("lost ", Describe(id), ": ", reason, ", last step ", task.step);
  ++losses_;
  const bool replaced = losses_ <= plan_.job().max_restarts();
  task.lost = task.gone = true;
  task.joined = task.ready = task.late = false;
  task.last_heard = 0;
  if (phase_ == Phase::kEvaluate && !task.answered) evaluate_again_ = true;
  task.lost_at = now;
  proto::WorkerLoss& loss = *summary_.add_worker_loss();
  loss.set_worker(id.index);
  loss.set_host(task.member.host());
  loss.set_incarnation(task.member.incarnation());
  loss.set_reason(reason);
  loss.set_seconds(ToSeconds(now - started_));
  leases_.Leave(id.index);

  proto::ProgressEvent event;
  event.mutable_worker_lost()->set_index(id.index);
  event.mutable_worker_lost()->set_incarnation(task.member.incarnation());
  event.mutable_worker_lost()->set_reason(
      absl::StrCat(text, replaced ? "; it is to be replaced" : "; the job goes on without it"));
  actions.push_back(Report{std::move(event)});
  if (!replaced && Present() == 0) {
    return FailAt({absl::UnavailableError(absl::StrCat(
                       text, "; no worker is left, and max_restarts (", plan_.job().max_restarts(),
                       ") is used up: --resume goes on from the last checkpoint")),
                   id, false, 0},
                  now);
  }
  if (phase_ > Phase::kServerSetup) SendFence(id, false, actions);
  Advance(now, actions);
}

// The frames of what was lost are refused; a worker that joins is waited for from the next round on.
void JobController::SendFence(TaskId id, bool takes_part, Actions& actions) {
  TaskState& task = tasks_.at(id);
  task.fence.set_worker(id.index);
  task.fence.set_incarnation(task.member.incarnation() + (takes_part ? 0 : 1));
  task.fence.set_takes_part(takes_part);
  task.fences_open = plan_.placement().servers();
  TellServers(task.fence, actions);
}

void JobController::TellServers(proto::Fence& fence, Actions& actions) {
  fence.set_clock(leases_.next_round());
  proto::ToTask order;
  *order.mutable_fence() = fence;
  for (const TaskId server : Tasks(proto::PS)) Send(server, order, actions);
}

void JobController::OnFenced(const proto::Fenced& fenced, Nanoseconds now, Actions& actions) {
  const TaskId id{proto::WORKER, fenced.worker()};
  const auto it = tasks_.find(id);
  if (it == tasks_.end()) return;
  TaskState& task = it->second;
  // An answer to a fence that another has overtaken is none.
  const bool expected = fenced.incarnation() == task.fence.incarnation() &&
                        fenced.takes_part() == task.fence.takes_part() && task.fences_open > 0;
  if (!expected || --task.fences_open > 0) return;
  if (task.fence.takes_part()) return Enrol(id, now, actions);
  Settle(id, actions);
  if (task.joined) SetUp({id}, actions);
  Advance(now, actions);
}

void JobController::Settle(TaskId id, Actions& actions) {
  const LeaseBook::Settlement settlement = leases_.Settle(id.index, ServersWithShards(plan_.placement()));
  proto::WorkerLoss& loss = LastLoss(id);
  loss.set_batches_returned(loss.batches_returned() + settlement.returned);
  const auto use = [&](Slice positions) {
    // They were free of other use: the book holds a batch once.
    TETHYS_CHECK(ledger_->Use(id.index, positions).ok());
    actions.push_back(
        WriteJournal{journal::Used(id.index, tasks_.at(id).step, JobBegin(positions), positions.count())});
  };
  for (const Slice positions : settlement.applied) use(positions);
  for (const LeaseBook::TornBatch& torn : settlement.torn) {
    use(torn.positions);
    actions.push_back(WriteJournal{
        journal::Torn(id.index, JobBegin(torn.positions), torn.positions.count(), torn.servers)});
    proto::TornBatch& line = *loss.add_torn();
    line.set_epoch(segment_.epoch);
    line.set_begin(torn.positions.begin);
    line.set_end(torn.positions.end);
    for (const int server : torn.servers) line.add_server(server);
  }
}

void JobController::Enrol(TaskId id, Nanoseconds now, Actions& actions) {
  TaskState& task = tasks_.at(id);
  task.late = false;
  task.answered = true;  // It was not asked.
  leases_.Join(id.index);
  // Rounds that were dealt since the servers were asked are not its own: nobody may wait for it there.
  if (leases_.next_round() > task.fence.clock()) TellServers(task.fence, actions);
  const double seconds = ToSeconds(now - task.lost_at);
  LastLoss(id).set_replaced_seconds(seconds);
  proto::ProgressEvent event;
  event.set_note(absl::StrFormat("%s takes part again after %.1f s", Describe(id), seconds));
  actions.push_back(Report{std::move(event)});
  if (phase_ == Phase::kTrain && !leases_.closed()) SendRun(id, actions);
  Advance(now, actions);
}

proto::WorkerLoss& JobController::LastLoss(TaskId id) {
  const auto losses = summary_.mutable_worker_loss();
  const auto last = std::find_if(losses->rbegin(), losses->rend(),
                                 [&](const proto::WorkerLoss& loss) { return loss.worker() == id.index; });
  TETHYS_CHECK(last != losses->rend());
  return *last;
}

bool JobController::Settling() const {
  return std::any_of(tasks_.begin(), tasks_.end(), [](const auto& entry) {
    return entry.second.fences_open > 0 && !entry.second.fence.takes_part();
  });
}

int JobController::Present() const {
  return static_cast<int>(std::count_if(tasks_.begin(), tasks_.end(), [](const auto& entry) {
    return entry.first.role == proto::WORKER && !entry.second.lost;
  }));
}

// ------------------------------------------------------------------------------------------------ failures

void JobController::OnFailure(TaskId id, const proto::Failure& failure, Nanoseconds now) {
  tasks_.at(id).step = std::max(tasks_.at(id).step, failure.step());
  const absl::Status status(static_cast<absl::StatusCode>(failure.status_code()),
                            absl::StrCat(Describe(id), ": ", failure.message()));
  FailAt({status.ok() ? absl::UnknownError(status.message()) : status, id, LooksLikeEcho(status), 0}, now);
}

void JobController::OnGone(TaskId id, uint32_t incarnation, Nanoseconds now, Actions& actions) {
  TaskState& task = tasks_.at(id);
  if (incarnation != task.member.incarnation() || task.lost) return;
  task.gone = true;
  if (phase_ == Phase::kStopping || phase_ == Phase::kEnded) return OnTick(now, actions);
  // A task that said why it failed is not lost on top of that.
  if (failure_.has_value() && failure_->culprit == id) return;
  OnLost(id, absl::UnavailableError("its session ended"), now, actions);
  OnTick(now, actions);
}

void JobController::OnLost(TaskId id, const absl::Status& reason, Nanoseconds now, Actions& actions) {
  const std::string why(reason.message().data(), reason.message().size());
  // A job that is about to fail survives nothing; its workers go home one by one.
  if (Survives(id) && !failure_.has_value()) return Lose(id, why, now, actions);
  if (Survives(id)) return;
  if (absl::IsUnavailable(reason)) actions.push_back(WriteJournal{journal::Lost(id.role, id.index, why)});
  const std::string text = absl::StrCat("lost ", Describe(id), ": ", why, ", last step ", tasks_.at(id).step);
  FailAt({absl::Status(reason.code(), text), id, false, 0}, now);
}

void JobController::FailAt(PendingFailure failure, Nanoseconds now) {
  if (phase_ == Phase::kStopping || phase_ == Phase::kEnded) return;
  failure.deadline = failure.echo ? now + kEchoPatience : now;
  if (!failure_.has_value() || (failure_->echo && !failure.echo)) failure_ = std::move(failure);
}

void JobController::OnTick(Nanoseconds now, Actions& actions) {
  if (phase_ == Phase::kEnded) return;
  if (phase_ == Phase::kStopping) {
    const bool all_gone = std::all_of(tasks_.begin(), tasks_.end(), [](const auto& entry) {
      return entry.second.gone || entry.second.last_heard == 0;
    });
    if (!all_gone && now - phase_begin_ < (end_status_.ok() ? 2 * kSecond : kSecond / 2)) return;
    phase_ = Phase::kEnded;
    actions.push_back(EndJob{end_status_, failure_.has_value() ? failure_->culprit : TaskId()});
    return;
  }
  FindSilent(now, actions);
  if (phase_ <= Phase::kWorkerSetup && now - started_ > start_timeout_) {
    std::vector<std::string> missing;
    for (const auto& [id, task] : tasks_) {
      if (!(phase_ == Phase::kGather ? task.joined : task.ready))
        missing.push_back(TaskName(id.role, id.index));
    }
    FailAt({absl::DeadlineExceededError(absl::StrCat("not ready within ", ToSeconds(start_timeout_),
                                                     " s (timeouts.start): ", absl::StrJoin(missing, ", "))),
            TaskId(), false, 0},
           now);
  }
  if (failure_.has_value() && now >= failure_->deadline) {
    phase_begin_ = now;
    return Stop(failure_->status, failure_->culprit, actions);
  }
  if (phase_ >= Phase::kTrain && now - last_progress_ >= kProgressInterval) ReportProgress(now, actions);
}

void JobController::FindSilent(Nanoseconds now, Actions& actions) {
  // A chief that did not run itself cannot tell who was silent meanwhile.
  const Nanoseconds pause = now - last_tick_;
  Nanoseconds last_loss = 0;
  for (auto& [id, task] : tasks_) {
    last_loss = std::max(last_loss, task.lost_at);
    if (last_tick_ != 0 && pause > silence_ / 2 && task.last_heard != 0) task.last_heard += pause;
    if (task.last_heard == 0 || task.gone || now - task.last_heard <= silence_) continue;
    OnLost(id,
           absl::DeadlineExceededError(
               absl::StrCat("it was silent for ", ToSeconds(silence_), " s (timeouts.silence)")),
           now, actions);
  }
  last_tick_ = now;
  if (planner_.leased() && Present() == 0 && now - last_loss > start_timeout_) {
    FailAt({absl::DeadlineExceededError(absl::StrCat("every worker is lost, and none was replaced within ",
                                                     ToSeconds(start_timeout_), " s (timeouts.start)")),
            TaskId(), false, 0},
           now);
  }
}

}  // namespace tethys
