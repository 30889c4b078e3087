// JobController's functions for members: tasks join, are set up, are lost and, if the consistency allows it,
// replaced.
//
//   task:         joins -> set up -> ready
//   lost worker:  fenced on every server -> its batches settled        the other workers train on meanwhile
//   replacement:  joins -> set up, once the lost worker is fenced -> ready -> enrolled on every server
//                 -> takes part
//
// A worker is fenced on a server once the server refuses the worker's frames. Settling decides which batches
// of a lost worker count as used. Once a replacement is enrolled on a server, the server waits for the pushes
// of the replacement, from the next round on.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_join.h"
#include "runtime/checkpoint/model_description.h"
#include "runtime/chief/job_controller.h"
#include "runtime/chief/journal.h"
#include "runtime/chief/saved_values.h"
#include "runtime/cluster/failure_kind.h"
#include "runtime/cluster/job_plan.h"

namespace tethys {
namespace {

constexpr int kMaxExchangeText = 1024;
constexpr int kMaxSamplesPerBeat = 16;  // A correct task sends two samples.
// The limit to which clock offsets are clamped: 36 years.
constexpr Nanoseconds kMostClockOffset = int64_t{1} << 60;
constexpr Nanoseconds kProgressInterval = 250 * kMillisecond;
constexpr Nanoseconds kPulseInterval = 1 * kSecond;
// The time that the chief waits for reports after timeouts.start has passed. Tasks that waited for one
// another until then report which task they waited for; this can take seconds on a busy machine.
constexpr Nanoseconds kReportTime = 3 * kSecond;

absl::Status NoWorkerIsLeft(const std::string& loss, const proto::Job& job) {
  return absl::UnavailableError(
      absl::StrCat(loss, "; no worker is left, and max_restarts (", job.max_restarts(),
                   ") is used up: start the job again with --resume to go on from the last checkpoint"));
}

}  // namespace

// ---------------------------------------------------------------------------------------------- joining

absl::Status JobController::Admit(TaskId id, uint32_t incarnation, Nanoseconds now) {
  if (!roster_.Has(id)) {
    return absl::InvalidArgumentError(absl::StrCat("this job has no ", TaskName(id.role, id.index)));
  }
  TaskState& task = roster_.at(id);
  const bool first = roster_.membership().IncarnationOf(id) == 0;
  if (incarnation == 0) return absl::InvalidArgumentError("a task's incarnations count from 1");
  if (first && course_.phase() == JobPhase::kGather) {
    task.Begin(id, incarnation, now);
    roster_.TakesPart(id);
    return absl::OkStatus();
  }
  // A newer incarnation of a worker proves that the older one has ended, even if the chief has not noticed it
  // yet.
  const uint32_t newest = std::max(task.member.incarnation(), task.candidate);
  if (Survives(id) && !course_.ending() && incarnation > newest) {
    task.candidate = incarnation;
    return absl::OkStatus();
  }
  if (first) return absl::AbortedError("the job no longer admits new tasks");
  return absl::AlreadyExistsError(absl::StrCat(TaskName(id.role, id.index), " has joined already"));
}

bool JobController::Concerns(TaskId id, uint32_t incarnation, const proto::FromTask& message) const {
  const TaskState& task = roster_.at(id);
  if (incarnation == task.member.incarnation()) return !task.lost;
  return incarnation == task.candidate && message.has_join();
}

void JobController::OnJoin(TaskId id, uint32_t incarnation, const proto::Join& join, Nanoseconds now,
                           Actions& actions) {
  TaskState& task = roster_.at(id);
  if (incarnation != task.member.incarnation()) {
    if (!task.lost) {
      Lose(id, task.failure.empty() ? "a newer process has taken its place" : task.failure, now, actions);
    }
    if (course_.ending()) return;
    task.Begin(id, incarnation, now);
    if (course_.phase() <= JobPhase::kServerSetup) roster_.TakesPart(id);
  } else if (course_.phase() != JobPhase::kGather) {
    return;
  }
  if (task.joined) return;
  task.joined = true;
  task.member.set_host(join.host());
  task.member.set_data_address(join.data_address());
  actions.push_back(WriteJournal{journal::Member(task.member)});
  // A worker is set up once all servers are there (ServersFormed).
  const bool waits = id.role == proto::WORKER && !servers_.formed();
  if (roster_.late(id) && !losses_.asking(id) && !waits) SetUp({id}, now, actions);
  Advance(now, actions);
}

void JobController::SetUpAll(proto::Role role, Nanoseconds now, Actions& actions) {
  course_.Enter(role == proto::PS ? JobPhase::kServerSetup : JobPhase::kWorkerSetup);
  SetUp(roster_.Present(role), now, actions);
  if (role != proto::WORKER) return;
  // The servers are ready and expect every worker, so they must be told which workers are already lost.
  for (const auto& [id, task] : roster_.tasks()) {
    if (task.lost) losses_.Fence(id, actions);
  }
}

// Sends Setup and directly afterwards Form: the other members have joined, so their addresses are known.
void JobController::SetUp(const std::vector<TaskId>& ids, Nanoseconds now, Actions& actions) {
  roster_.AssignLocalRanks(ids);
  proto::ToTask order, form;
  proto::Setup& setup = *order.mutable_setup();
  *setup.mutable_plan() = plan_;
  *setup.mutable_state() = state_;
  const Nanoseconds begin = course_.training_begun() ? now : own_.started_ns();
  setup.set_seconds_left(ToSeconds(std::max<Nanoseconds>(0, begin + start_timeout_ - now)));
  *form.mutable_form()->mutable_group() = roster_.Group();
  form.mutable_form()->set_step(state_.step());
  // In lock step, a replacement gets Form later, once the group is halted; so does the replacement of a
  // server.
  const bool server = !ids.empty() && ids[0].role == proto::PS;
  const bool joins_later = (group_.active() || server) && course_.training_begun();
  const bool on_servers = TraitsOf(plan_.job()).servers();
  for (const TaskId id : ids) {
    // A replacement that holds parameters takes them from another task, not from the checkpoint.
    setup.set_restore(own_.restore() && !(joins_later && (id.role == proto::PS || !on_servers)));
    *setup.mutable_self() = roster_.at(id).member;
    setup.set_first_on_host(roster_.FirstOnHost(id));
    if (id.role == proto::WORKER) {
      const std::vector<float>& statistics = statistics_.StartOf(id.index);
      setup.mutable_statistics()->Assign(statistics.begin(), statistics.end());
    }
    Send(id, order, actions);
    if (joins_later) continue;
    roster_.at(id).generation = roster_.membership().generation();
    Send(id, form, actions);
  }
}

void JobController::RequireScaling(const proto::ModelDescription& saved, const std::string& path) {
  *own_.mutable_saved_model() = saved;
  own_.set_saved_path(path);
}

// Every worker computes the scaling from its own data, so two workers have different scalings if their files
// differ.
absl::Status JobController::NoteScaling(TaskId id, const proto::InputScaling& scaling) {
  const auto finite = [](float value) { return std::isfinite(value); };
  const auto positive = [](float value) { return std::isfinite(value) && value > 0; };
  if (scaling.mean_size() != scaling.deviation_size() || !absl::c_all_of(scaling.mean(), finite) ||
      !absl::c_all_of(scaling.deviation(), positive)) {
    return absl::InvalidArgumentError(absl::StrCat(
        roster_.Describe(id), ": its training data have mean ", absl::StrJoin(scaling.mean(), ", "),
        " and deviation ", absl::StrJoin(scaling.deviation(), ", "),
        ": each mean must be finite, each deviation finite and positive"));
  }
  if (!plan_.has_scaling()) {
    TETHYS_RETURN_IF_ERROR(
        CheckSameScaling(own_.saved_model(), ScalingOf(scaling, plan_.float_inputs()), own_.saved_path()));
    *plan_.mutable_scaling() = scaling;
    return absl::OkStatus();
  }
  const proto::InputScaling& known = plan_.scaling();
  if (absl::c_equal(known.mean(), scaling.mean()) && absl::c_equal(known.deviation(), scaling.deviation())) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      roster_.Describe(id), ": its training data have mean ", absl::StrJoin(scaling.mean(), ", "),
      " and deviation ", absl::StrJoin(scaling.deviation(), ", "),
      ", but the training data of other workers have mean ", absl::StrJoin(known.mean(), ", "),
      " and deviation ", absl::StrJoin(known.deviation(), ", "), ": put the same files on every host"));
}

void JobController::OnReady(TaskId id, const proto::Ready& ready, Nanoseconds now, Actions& actions) {
  TaskState& task = roster_.at(id);
  if (ready.has_scaling()) {
    if (const absl::Status status = NoteScaling(id, ready.scaling()); !status.ok()) {
      return Fail(status, id, now);
    }
  }
  task.ready = true;
  task.setup_ns = ready.setup_ns();
  if (group_.active() && roster_.late(id)) return Regroup(now, actions);
  if (id.role == proto::PS && roster_.late(id)) return RegroupServers(now, actions);
  Advance(now, actions);
}

void JobController::OnFormed(TaskId id, const proto::Formed& formed, Nanoseconds now, Actions& actions) {
  TaskState& task = roster_.at(id);
  if (task.generation == 0 || formed.generation() != task.generation || task.formed) return;
  task.formed = true;
  // The summary names the exchange of gradients that the first group, which contains all workers, has chosen.
  if (!formed.exchange().empty() && !course_.training_begun())
    own_.set_exchange(formed.exchange().substr(0, kMaxExchangeText));
  if (servers_.active() && id.role == proto::PS && course_.training_begun()) {
    if (servers_.OnFormed(id)) ServersFormed(now, actions);
    return;
  }
  if (course_.phase() == JobPhase::kRegroup && group_.active()) {
    if (group_.OnFormed(id)) GroupFormed(now, actions);
    return;
  }
  if (roster_.late(id)) return losses_.Enrol(id, actions);
  Advance(now, actions);
}

void JobController::OnHeartbeat(TaskId id, const proto::Heartbeat& heartbeat, Nanoseconds now,
                                Actions& actions) {
  TaskState& task = roster_.at(id);
  task.heartbeat = heartbeat;
  task.heartbeat.clear_resources();
  task.heartbeat.set_clock_offset_ns(
      std::clamp(heartbeat.clock_offset_ns(), -kMostClockOffset, kMostClockOffset));
  task.HasMade(heartbeat.step());
  if (heartbeat.computing()) group_.OnDelay(id, now);
  if (!heartbeat.resources().empty() && heartbeat.resources_size() <= kMaxSamplesPerBeat) {
    pulses_.AddSamples(id, task.member.host(), heartbeat.resources());
    actions.push_back(
        KeepResources{id, task.member.host(), heartbeat.resources(), task.heartbeat.clock_offset_ns()});
  }
  proto::ToTask order;
  order.mutable_pong()->set_sent_ns(heartbeat.sent_ns());
  order.mutable_pong()->set_chief_ns(now);
  order.mutable_pong()->set_peers_compute(roster_.AnotherComputes(id));
  Send(id, std::move(order), actions);
}

// ------------------------------------------------------------------------------------------------ losses

// In lock step, the loss of a task before training begins ends the job.
bool JobController::Survives(TaskId id) const {
  const bool begun = course_.training_begun(), in_group = group_.active() && begun;
  return id.role == proto::WORKER ? planner_.leased() || in_group : begun && CopiesShards(plan_);
}

std::string JobController::LossText(TaskId id, const std::string& reason) const {
  return absl::StrCat("lost ", roster_.Describe(id), ": ", reason, ", last step ", roster_.at(id).step);
}

void JobController::OnLost(TaskId id, const absl::Status& reason, Nanoseconds now, Actions& actions) {
  const std::string why(reason.message());
  // Unlike a worker, a server must be replaced.
  if (Survives(id) && (id.role == proto::WORKER || losses_.can_replace())) {
    // Tasks that end because the job is about to fail do not count as lost.
    if (!failure_.any()) Lose(id, why, now, actions);
    return;
  }
  if (absl::IsUnavailable(reason)) actions.push_back(WriteJournal{journal::Lost(id.role, id.index, why)});
  const std::string used_up =
      Survives(id) ? absl::StrCat("; max_restarts (", plan_.job().max_restarts(), ") allows no replacement")
                   : "";
  Fail(absl::Status(reason.code(), absl::StrCat(LossText(id, why), used_up)), id, now);
}

void JobController::Lose(TaskId id, const std::string& reason, Nanoseconds now, Actions& actions) {
  actions.push_back(WriteJournal{journal::Lost(id.role, id.index, reason)});
  const std::string text = LossText(id, reason);
  if (id.role == proto::PS) {
    losses_.LoseServer(id, reason, text, now, actions);
  } else {
    losses_.Lose(id, reason, text, now, actions);
    evaluation_.OnLost(id);
    statistics_.OnLost(id.index);
  }
  if (group_.active()) {
    group_.OnLost(id, text);
    return Regroup(now, actions);
  }
  if (id.role == proto::PS) {
    servers_.OnLost(id, text);
    return RegroupServers(now, actions);
  }
  if (roster_.workers_left() == 0 && !losses_.awaits_replacement(proto::WORKER)) {
    return Fail(NoWorkerIsLeft(text, plan_.job()), id, now);
  }
  if (course_.phase() > JobPhase::kServerSetup) losses_.Fence(id, actions);
  Advance(now, actions);
}

void JobController::OnFenced(TaskId server, const proto::Fenced& fenced, Nanoseconds now, Actions& actions) {
  const TaskId id{proto::WORKER, fenced.worker()};
  switch (losses_.OnFenced(server, fenced)) {
    case TaskLosses::Answer::kNotYet:
      return;
    case TaskLosses::Answer::kLostIsFenced:
      losses_.Settle(id, actions);
      if (roster_.at(id).joined && servers_.formed()) SetUp({id}, now, actions);
      break;
    case TaskLosses::Answer::kEnrolled:
      if (!roster_.late(id)) break;  // The replacement was lost while servers enrolled it.
      losses_.TakesPart(id, now, actions);
      if (course_.phase() == JobPhase::kTrain && !running_.leases().closed()) SendRun(id, actions);
      break;
  }
  Advance(now, actions);
}

// ------------------------------------------------------------------------------------------------ failures

void JobController::OnFailure(TaskId id, const proto::Failure& failure, Nanoseconds now) {
  TaskState& task = roster_.at(id);
  task.HasMade(failure.step());
  task.failed = true;
  absl::Status status(static_cast<absl::StatusCode>(failure.status_code()),
                      absl::StrCat(roster_.Describe(id), ": ", failure.message()));
  if (status.ok()) status = absl::UnknownError(status.message());
  if (course_.ending()) return;
  // A failure before training begins ends the job even if it befell one process only: no work is lost, and
  // the user sees the error at once.
  if (Survives(id) && course_.training_begun() && MayBefallOneProcess(status)) {
    task.failure = failure.message().empty() ? "it reported a failure without a message" : failure.message();
    task.failed_at = now;
    return;
  }
  failure_.NoteReport(status, id, now);
}

// A reported failure may follow from a server's loss, which may end the job. So a worker that reports a
// failure counts as lost only after JobFailure::kEchoPatience.
void JobController::LoseFailed(Nanoseconds now, Actions& actions) {
  std::vector<TaskId> due;
  for (const auto& [id, task] : roster_.tasks()) {
    const bool waited = now - task.failed_at >= JobFailure::kEchoPatience;
    if (!task.lost && !task.failure.empty() && waited) due.push_back(id);
  }
  for (const TaskId id : due) {
    if (!failure_.any()) Lose(id, roster_.at(id).failure, now, actions);
  }
}

void JobController::OnGone(TaskId id, uint32_t incarnation, Nanoseconds now, Actions& actions) {
  TaskState& task = roster_.at(id);
  if (incarnation != task.member.incarnation() || task.lost) return;
  task.gone = true;
  if (course_.ending()) return OnTick(now, actions);
  // The failure that the task has reported is already being handled; the end of its session adds nothing.
  if (task.failed) return;
  OnLost(id, absl::UnavailableError("its session ended"), now, actions);
  OnTick(now, actions);
}

void JobController::Fail(const absl::Status& status, TaskId culprit, Nanoseconds now) {
  if (!course_.ending()) failure_.Note(status, culprit, now);
}

void JobController::OnTick(Nanoseconds now, Actions& actions) {
  if (course_.phase() == JobPhase::kEnded) return;
  if (course_.phase() == JobPhase::kStopping) {
    const Nanoseconds patience = own_.end().code() == 0 ? 2 * kSecond : kSecond / 2;
    if (!roster_.all_gone() && now - own_.stopping_since_ns() < patience) return;
    course_.Enter(JobPhase::kEnded);
    actions.push_back(EndJob{StatusOf(own_.end()), failure_.culprit()});
    return;
  }
  CheckMembers(now, actions);
  LoseFailed(now, actions);
  pause_.OnTick(now, actions);
  Regroup(now, actions);
  RegroupServers(now, actions);
  if (failure_.Due(now)) return Stop(failure_.status(), failure_.culprit(), now, actions);
  if (course_.training_begun() && now - own_.last_progress_ns() >= kProgressInterval)
    ReportProgress(now, actions);
  if (now - own_.last_pulse_ns() >= kPulseInterval) ReportPulse(now, actions);
}

// Before training begins, a machine on which many processes start at once may be slow to send, and a loss
// ends the job. Once no worker can be replaced any more, a worker that is only late would be lost for good.
JobController::Patience JobController::PatienceFor(TaskId id) const {
  const proto::Timeouts& timeouts = plan_.job().timeouts();
  const Nanoseconds silence = FromSeconds(timeouts.silence());
  if (!course_.training_begun() && start_timeout_ / 2 > silence) {
    return {start_timeout_ / 2, "half of timeouts.start"};
  }
  const bool shorter = timeouts.has_worker_silence() || losses_.can_replace();
  if (!Survives(id) || !shorter) return {silence, "timeouts.silence"};
  return {FromSeconds(WorkerSilence(plan_.job())), "timeouts.worker_silence"};
}

// Handles tasks that are silent, not ready in time, or not replaced in time.
void JobController::CheckMembers(Nanoseconds now, Actions& actions) {
  const auto patience_of = [this](TaskId id) { return PatienceFor(id).time; };
  for (const TaskId id : GivenUp(roster_.FindSilent(now, patience_of), now)) {
    const Patience patience = PatienceFor(id);
    OnLost(id,
           absl::DeadlineExceededError(absl::StrCat("it was silent for ", ToSeconds(patience.time), " s (",
                                                    patience.field, ")", overload_())),
           now, actions);
  }
  const Nanoseconds to_leave = FromSeconds(plan_.job().timeouts().step());
  const Nanoseconds to_join = start_timeout_ + kReportTime;
  for (const auto& overdue :
       {group_.Overdue(to_leave, to_join, now), servers_.Overdue(to_leave, to_join, now)}) {
    if (!overdue.has_value() || failure_.any()) continue;
    OnLost(overdue->task, absl::DeadlineExceededError(overdue->why), now, actions);
  }
  const std::string patience = absl::StrCat("within ", ToSeconds(start_timeout_), " s (timeouts.start)");
  if (planner_.leased() && roster_.workers_left() == 0 && !failure_.any()) {
    if (!losses_.awaits_replacement(proto::WORKER)) {
      Fail(NoWorkerIsLeft("every worker is lost", plan_.job()), TaskId(), now);
    } else if (now - losses_.last() > start_timeout_) {
      std::vector<std::string> lost;
      for (const auto& [id, task] : roster_.tasks()) {
        if (id.role == proto::WORKER) lost.push_back(roster_.Describe(id));
      }
      Fail(absl::DeadlineExceededError(absl::StrCat("every worker is lost, and none was replaced ", patience,
                                                    ": ", absl::StrJoin(lost, ", "))),
           TaskId(), now);
    }
  }
  const bool gathers = course_.phase() == JobPhase::kGather;
  const Nanoseconds most = start_timeout_ + (gathers ? 0 : kReportTime);
  // A failure that has been noted says more than the error below. The job may not have ended yet, because
  // JobFailure delays a failure that may only follow from another failure.
  if (course_.training_begun() || now - own_.started_ns() <= most || failure_.any()) return;
  std::vector<std::string> missing;
  TaskId first;
  for (const auto& [id, task] : roster_.tasks()) {
    // A task that was ready may have fallen silent before all were.
    const bool silent = !task.lost && now - task.last_heard >= Roster::kSilent;
    if ((gathers ? task.joined : task.ready) && !silent) continue;
    // Workers are set up only after the servers are ready, so no worker counts as missing before.
    if (course_.phase() == JobPhase::kServerSetup && id.role != proto::PS) continue;
    if (missing.empty()) first = id;
    missing.push_back(roster_.Describe(id));
  }
  Fail(absl::DeadlineExceededError(
           absl::StrCat("not ready ", patience, ": ", absl::StrJoin(missing, ", "),
                        gathers ? "; a task that did not join was not started or cannot reach this chief "
                                  "(`tethys hosts check` tests all links)"
                                : "; each had joined, and its log says what it waited for")),
       first, now);
}

}  // namespace tethys
