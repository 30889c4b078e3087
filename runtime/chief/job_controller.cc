#include "runtime/chief/job_controller.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/chief/journal.h"
#include "runtime/chief/saved_values.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/cluster/sample_order.h"

namespace tethys {

// InvalidArgument: a number of `record` is impossible for a step, or so large that sums of such numbers could
// overflow.
absl::Status JobController::CheckRecord(const proto::StepRecord& record) {
  // The largest accepted count, number of bytes, or duration in nanoseconds (13 days).
  constexpr int64_t kMost = int64_t{1} << 50;
  constexpr Nanoseconds kLatest = kMost << 10;  // The latest possible time: 36 years after boot.
  bool plausible = record.step() >= 0 && record.correct() >= 0 && record.correct() <= record.labels() &&
                   record.begin_ns() >= 0 && record.begin_ns() <= kLatest;
  for (const int64_t value :
       {record.step(), record.samples(), record.labels(), record.data_ns(), record.forward_ns(),
        record.backward_ns(), record.exchange_ns(), record.update_ns(), record.total_ns(), record.bytes_out(),
        record.bytes_in(), record.staleness()}) {
    plausible = plausible && value >= -kMost && value <= kMost;
  }
  if (plausible) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("no step can have this record: ", record.ShortDebugString()));
}

namespace {

int64_t LabelsOfSample(const proto::JobPlan& plan) {
  int64_t labels = 1;
  for (const int64_t axis : plan.label_shape()) labels *= axis;
  return labels;
}

}  // namespace

JobController::JobController(proto::JobPlan plan, proto::TrainingState state, bool restore,
                             StatisticsBook statistics, Nanoseconds now)
    : plan_(std::move(plan)),
      planner_(plan_),
      start_timeout_(FromSeconds(plan_.job().timeouts().start())),
      course_(plan_.validation_samples() > 0 && plan_.job().evaluate_each_epoch(), plan_.test_samples() > 0),
      roster_(Membership::Of(plan_), now),
      state_(std::move(state)),
      running_(planner_, EpochLength(plan_)),
      statistics_(std::move(statistics)),
      losses_(plan_, roster_, running_, now),
      pulses_(planner_.leased()),
      group_(plan_, roster_),
      servers_(plan_, roster_),
      checkpoints_(plan_, state_),
      evaluation_(LabelsOfSample(plan_), plan_.job().data().classes()),
      pause_(roster_, running_) {
  own_.set_started_ns(now);
  own_.set_restore(restore);
  own_.set_first_step(state_.step());
  own_.set_job_hash(plan_.job_hash());
  epoch_sums_ = {.loss = state_.loss_sum(),
                 .correct = state_.correct(),
                 .samples = state_.samples(),
                 .labels = state_.has_labels() ? state_.labels() : state_.samples()};
}

void JobController::OnMessage(TaskId id, uint32_t incarnation, const proto::FromTask& message,
                              Nanoseconds now, Actions& actions) {
  if (!Concerns(id, incarnation, message)) return;
  if (now - roster_.at(id).last_heard >= Roster::kSilent) group_.OnDelay(id, now);
  roster_.at(id).last_heard = now;
  // Measurements are kept in every phase. Messages that would advance the job are ignored once the job is
  // ending.
  if (message.has_steps()) return OnSteps(id, message.steps(), now, actions);
  if (message.has_applied() && id.role == proto::PS) return OnApplied(id, message.applied(), actions);
  if (message.has_heartbeat()) return OnHeartbeat(id, message.heartbeat(), now, actions);
  if (message.has_failure()) return OnFailure(id, message.failure(), now);
  if (course_.ending()) return;
  if (message.has_join()) {
    OnJoin(id, incarnation, message.join(), now, actions);
  } else if (message.has_ready()) {
    OnReady(id, message.ready(), now, actions);
  } else if (message.has_lease_request()) {
    OnLeaseRequest(id, message.lease_request(), actions);
  } else if (message.has_run_done() && id.role == proto::WORKER) {
    OnRunDone(id, message.run_done(), now, actions);
  } else if (message.has_evaluation_done()) {
    OnEvaluationDone(id, message.evaluation_done(), now, actions);
  } else if (message.has_save_done()) {
    OnSaveDone(id, message.save_done(), now, actions);
  } else if (message.has_fenced() && id.role == proto::PS) {
    OnFenced(id, message.fenced(), now, actions);
  } else if (message.has_formed()) {
    OnFormed(id, message.formed(), now, actions);
  } else if (message.has_halted()) {
    OnHalted(id, message.halted(), now, actions);
  } else if (message.has_pausing() && id.role == proto::WORKER) {
    OnPausing(id, message.pausing(), now, actions);
  }
}

// ------------------------------------------------------------------------------ the stages of the job

void JobController::Advance(Nanoseconds now, Actions& actions) {
  const bool has_servers = roster_.membership().Count(proto::PS) > 0;
  switch (course_.phase()) {
    case JobPhase::kGather:
      if (roster_.All(proto::WORKER, &TaskState::joined) &&
          (!has_servers || roster_.All(proto::PS, &TaskState::joined))) {
        SetUpAll(has_servers ? proto::PS : proto::WORKER, now, actions);
      }
      return;
    case JobPhase::kServerSetup:
      if (roster_.All(proto::PS, &TaskState::ready) && roster_.All(proto::PS, &TaskState::formed)) {
        SetUpAll(proto::WORKER, now, actions);
      }
      return;
    case JobPhase::kWorkerSetup:
      if (roster_.All(proto::WORKER, &TaskState::ready) && roster_.All(proto::WORKER, &TaskState::formed)) {
        StartTraining(now, actions);
      }
      return;
    case JobPhase::kTrain:
      if (roster_.All(proto::WORKER, &TaskState::run_done) && !losses_.settling()) {
        FinishSegment(now, actions);
      }
      return;
    case JobPhase::kValidate:
    case JobPhase::kTest:
      if (roster_.Present(proto::WORKER).empty()) return;
      if (evaluation_.state() == EvaluationCoordinator::State::kComplete) {
        FinishEvaluation(now, actions);
      } else if (evaluation_.state() == EvaluationCoordinator::State::kIncomplete) {
        Evaluate(course_.phase(), now, actions);
      }
      return;
    case JobPhase::kSave:
    case JobPhase::kRegroup:
    case JobPhase::kStopping:
    case JobPhase::kEnded:
      return;
  }
}

void JobController::Continue(Nanoseconds now, Actions& actions) {
  using Next = JobCourse::NextStep;
  const Next next = course_.Next(planner_.Finished(state_));
  const bool takes_workers =
      next != Next::kReportEpoch && next != Next::kStop && next != Next::kStopInterrupted;
  if (takes_workers && MustRegroup()) {
    course_.Regroup(false, false);
    group_.Halt(held_.next(), now, actions);
    return Proceed(now, actions);
  }
  if (next != Next::kReportEpoch && (!servers_.formed() || servers_.broken())) {
    course_.Regroup(false, false);
    return RegroupServers(now, actions);
  }
  switch (next) {
    case Next::kValidate:
      return Evaluate(JobPhase::kValidate, now, actions);
    case Next::kReportEpoch:
      ReportEpoch(actions);
      return Continue(now, actions);
    case Next::kSave:
      return BeginSave(now, actions);
    case Next::kTrain:
      return RunSegment(now, actions);
    case Next::kTest:
      return Evaluate(JobPhase::kTest, now, actions);
    case Next::kStop: {
      const absl::Status status = EndStatus();
      return Stop(status, status.ok() ? TaskId() : TaskId{proto::CHIEF, 0}, now, actions);
    }
    case Next::kStopInterrupted:
      return Stop(InterruptedStatus(), TaskId(), now, actions);
  }
}

// --------------------------------------------------------------------------------------------- training

void JobController::Send(TaskId id, proto::ToTask order, Actions& actions) {
  actions.push_back(SendOrder{id, std::move(order)});
}

void JobController::StartTraining(Nanoseconds now, Actions& actions) {
  for (const TaskId id : roster_.Present(proto::WORKER)) running_.leases().Join(id.index);
  // A silence that was no loss until now must not count as one by the shorter time that holds from now on.
  for (auto& [id, task] : roster_.tasks()) {
    if (task.last_heard != 0) task.last_heard = now;
  }
  if (group_.active()) {
    group_.TrainingBegins();
    held_.Open(roster_.Present(proto::WORKER), state_.step());
  }
  own_.set_startup_seconds(SecondsSinceStart(now));
  checkpoints_.TrainingBegins(now);
  proto::ProgressEvent event;
  proto::Started& started = *event.mutable_started();
  started.set_workers(plan_.job().workers());
  started.set_servers(plan_.placement().servers());
  started.set_train_samples(plan_.train_samples());
  started.set_epochs(plan_.job().epochs());
  started.set_seconds(own_.startup_seconds());
  started.set_step(state_.step());
  started.set_epoch(state_.epoch());
  actions.push_back(Report{std::move(event)});
  if (!own_.exchange().empty() && plan_.job().workers() > 1) {
    proto::ProgressEvent choice;
    choice.set_note("gradients are exchanged by " + own_.exchange());
    actions.push_back(Report{std::move(choice)});
  }
  Continue(now, actions);
}

void JobController::RunSegment(Nanoseconds now, Actions& actions) {
  course_.Enter(JobPhase::kTrain);
  running_.Open(planner_.Next(state_), roster_.membership().shares());
  own_.set_segment_begin_ns(now);
  own_.set_first_done_ns(0);
  SendRuns(actions);
}

void JobController::SendRuns(Actions& actions) {
  running_.BeginRun();
  for (const TaskId id : roster_.Present(proto::WORKER)) SendRun(id, actions);
}

void JobController::SendRun(TaskId id, Actions& actions) {
  proto::ToTask order;
  *order.mutable_run() = running_.RunOrder(state_.step());
  order.mutable_run()->set_generation(roster_.membership().generation());
  roster_.at(id).run_done = false;
  Send(id, std::move(order), actions);
  if (planner_.leased()) running_.SendLeases(id.index, RunningSegment::kLeasesAhead, actions);
}

void JobController::OnLeaseRequest(TaskId id, const proto::LeaseRequest& request, Actions& actions) {
  if (course_.phase() != JobPhase::kTrain || !planner_.leased()) return;
  running_.SendLeases(id.index, std::clamp(request.batches(), 1, RunningSegment::kLeasesAhead), actions);
}

void JobController::OnSteps(TaskId id, const proto::StepRecords& records, Nanoseconds now, Actions& actions) {
  if (group_.active()) return HoldSteps(id, records, now, actions);
  TaskState& task = roster_.at(id);
  for (const proto::StepRecord& record : records.record()) {
    if (const absl::Status status = CheckRecord(record); !status.ok()) {
      return Fail(Annotate(status, roster_.Describe(id)), id, now);
    }
    task.HasMade(record.step() + 1);
    if (course_.phase() != JobPhase::kTrain) continue;
    const Slice positions = running_.Positions(record.sample_begin(), record.samples());
    if (const absl::Status status = running_.Use(id.index, positions); !status.ok()) {
      return Fail(status, id, now);
    }
    actions.push_back(
        WriteJournal{journal::Used(id.index, record.step(), record.sample_begin(), record.samples())});
    epoch_sums_.Add(record);
  }
  pulses_.AddSteps(id.index, records);
  actions.push_back(KeepRecords{records, task.heartbeat.clock_offset_ns()});
}

void JobController::OnApplied(TaskId id, const proto::AppliedPushes& applied, Actions& actions) {
  for (const proto::AppliedPush& push : applied.push()) {
    roster_.at(id).HasMade(push.version());
    if (group_.active()) {
      held_.AddPush(id.index, push);
      continue;
    }
    if (servers_.active() && !servers_.IsNew(id, push)) continue;
    actions.push_back(WriteJournal{journal::Applied(id.index, push)});
    running_.leases().Applied(id.index, running_.Positions(push.sample_begin(), push.sample_count()));
  }
  WriteCountedPushes(actions);
}

void JobController::OnRunDone(TaskId id, const proto::RunDone& done, Nanoseconds now, Actions& actions) {
  if (course_.phase() != JobPhase::kTrain || done.run() != running_.run() || roster_.at(id).run_done) return;
  if (const absl::Status status = statistics_.OnRunDone(id.index, done); !status.ok()) {
    return Fail(Annotate(status, roster_.Describe(id)), id, now);
  }
  if (own_.first_done_ns() == 0) own_.set_first_done_ns(now);
  roster_.at(id).run_done = true;
  pause_.OnRunDone(id, actions);
  Advance(now, actions);
}

void JobController::FinishSegment(Nanoseconds now, Actions& actions) {
  // A lost worker may have returned batches after the other workers had ended their run.
  if (running_.ReopenIfUnfinished()) return SendRuns(actions);
  if (const absl::Status status = running_.CheckAllUsed(); !status.ok()) return Fail(status, TaskId(), now);
  statistics_.Average(!planner_.leased());
  const TrainingSegment& segment = running_.segment();
  const double seconds = ToSeconds(now - own_.segment_begin_ns());
  own_.set_training_seconds(own_.training_seconds() + seconds);
  own_.set_epoch_barrier_seconds(own_.epoch_barrier_seconds() + ToSeconds(now - own_.first_done_ns()));
  state_.set_training_seconds(state_.training_seconds() + seconds);
  state_.set_epoch_seconds(state_.epoch_seconds() + seconds);
  state_.set_step(state_.step() + segment.steps);
  state_.set_position(segment.positions.end);
  if (segment.ends_epoch) {
    actions.push_back(WriteJournal{journal::EpochDone(segment.epoch, segment.positions.end)});
    state_.set_epoch(segment.epoch + 1);
    state_.set_position(0);
  }
  course_.SegmentEnded(
      {.epoch_ended = segment.ends_epoch || planner_.Finished(state_),
       .save_due = planner_.SaveDue(state_, segment.ends_epoch, checkpoints_.SecondsSinceSave(now))});
  own_.clear_epoch_result();
  Continue(now, actions);
}

// ------------------------------------------------------------------------------------------ interrupting

void JobController::OnTookOver(Nanoseconds now, Actions& actions) {
  const double absent = ToSeconds(now - roster_.last_search());
  losses_.OnTookOver(now, absent);
  proto::ProgressEvent event;
  event.mutable_took_over()->set_absent_seconds(absent);
  actions.push_back(Report{std::move(event)});
}

void JobController::OnInterrupt(Nanoseconds now, Actions& actions) {
  if (course_.interrupted() || course_.ending()) return;
  course_.Interrupt();
  if (!course_.training_begun()) {
    return Stop(absl::CancelledError("interrupted before training began"), TaskId(), now, actions);
  }
  // After an interrupt, the next group does not wait for a replacement any more.
  if (course_.phase() == JobPhase::kRegroup) return Proceed(now, actions);
  // At a barrier there is no segment to cut, and no segment begins after an interrupt (job_course.h).
  if (course_.phase() != JobPhase::kTrain) return;
  // Workers on leases use the batches that they hold and get no more batches.
  if (planner_.leased()) return running_.CutToLeased();
  pause_.Begin(now, actions);
}

void JobController::OnPausing(TaskId id, const proto::Pausing& pausing, Nanoseconds now, Actions& actions) {
  if (course_.phase() != JobPhase::kTrain) return;
  if (const absl::Status status = pause_.OnPausing(id, pausing, actions); !status.ok()) {
    Fail(Annotate(status, roster_.Describe(id)), id, now);
  }
}

// ------------------------------------------------------------------------------------------------ ending

absl::Status JobController::EndStatus() const {
  const absl::Status& saved = checkpoints_.last_status();
  if (saved.ok()) return saved;
  return absl::ResourceExhaustedError(
      absl::StrCat("the final checkpoint was not saved: ", StatusText(saved)));
}

absl::Status JobController::InterruptedStatus() const {
  const absl::Status& saved = checkpoints_.last_status();
  if (saved.ok()) return absl::CancelledError("interrupted");
  return absl::CancelledError(
      absl::StrCat("interrupted, and the checkpoint was not saved: ", StatusText(saved)));
}

void JobController::Stop(absl::Status status, TaskId culprit, Nanoseconds now, Actions& actions) {
  course_.Enter(JobPhase::kStopping);
  own_.set_stopping_since_ns(now);
  ReportPulse(now, actions);  // The last pulse, which includes all steps.
  Put(status, *own_.mutable_end());
  if (status.ok()) {
    actions.push_back(WriteJournal{journal::End(state_)});
  } else {
    proto::FirstFailure& failure = *own_.mutable_first_failure();
    failure.set_role(culprit.role == proto::WORKER ? "worker" : culprit.role == proto::PS ? "ps" : "chief");
    failure.set_index(culprit.index);
    failure.set_last_step(state_.step());
    if (roster_.Has(culprit)) {
      failure.set_host(roster_.at(culprit).member.host());
      failure.set_last_step(roster_.at(culprit).step);
    }
  }
  proto::ToTask order;
  order.mutable_stop()->set_failed(!status.ok());
  order.mutable_stop()->set_reason(std::string(status.message()));
  for (const auto& [id, task] : roster_.tasks()) {
    if (task.last_heard != 0 && !task.gone) Send(id, order, actions);
  }
}

}  // namespace tethys
