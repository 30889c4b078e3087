#include "runtime/chief/job_controller.h"

#include <algorithm>

#include "runtime/chief/journal.h"
#include "runtime/cluster/job_plan.h"

namespace tethys {
namespace {

// InvalidArgument: no step is like that, and sums of such numbers would overflow.
absl::Status CheckRecord(const proto::StepRecord& record) {
  constexpr int64_t kMost = int64_t{1} << 50;   // Steps, bytes, and nanoseconds: 13 days.
  constexpr Nanoseconds kLatest = kMost << 10;  // 36 years after the machine's start.
  bool plausible = record.step() >= 0 && record.correct() >= 0 && record.correct() <= record.samples() &&
                   record.begin_ns() >= 0 && record.begin_ns() <= kLatest;
  for (const int64_t value : {record.step(), record.samples(), record.data_ns(), record.forward_ns(),
                              record.backward_ns(), record.exchange_ns(), record.update_ns(),
                              record.total_ns(), record.bytes_out(), record.bytes_in(), record.staleness()}) {
    plausible = plausible && value >= -kMost && value <= kMost;
  }
  if (plausible) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a record that no step can have: ", record.ShortDebugString()));
}

}  // namespace

JobController::JobController(proto::JobPlan plan, proto::TrainingState state, bool restore, Nanoseconds now)
    : plan_(std::move(plan)),
      planner_(plan_),
      earlier_attempts_(state.attempt()),
      restore_(restore),
      first_step_(state.step()),
      started_(now),
      silence_(FromSeconds(plan_.job().timeouts().silence())),
      start_timeout_(FromSeconds(plan_.job().timeouts().start())),
      roster_(plan_.job().workers(), plan_.placement().servers()),
      state_(std::move(state)),
      running_(planner_, plan_.train_samples()),
      losses_(plan_, roster_, running_, started_) {
  saved_best_ = state_.best();
  epoch_sums_ = {state_.loss_sum(), state_.correct(), state_.samples()};
}

void JobController::OnMessage(TaskId id, uint32_t incarnation, const proto::FromTask& message,
                              Nanoseconds now, Actions& actions) {
  if (!Concerns(id, incarnation, message)) return;
  roster_.at(id).last_heard = now;
  // What was measured is kept whatever the phase; what would move the job on is not heeded once it ends.
  if (message.has_steps()) return OnSteps(id, message.steps(), now, actions);
  if (message.has_applied() && id.role == proto::PS) return OnApplied(id, message.applied(), actions);
  if (message.has_heartbeat()) return OnHeartbeat(id, message.heartbeat(), now, actions);
  if (message.has_failure()) return OnFailure(id, message.failure(), now);
  if (ending()) return;
  if (message.has_join()) {
    OnJoin(id, incarnation, message.join(), now, actions);
  } else if (message.has_ready()) {
    OnReady(id, message.ready(), now, actions);
  } else if (message.has_lease_request()) {
    OnLeaseRequest(id, message.lease_request(), actions);
  } else if (message.has_segment_done()) {
    OnSegmentDone(id, message.segment_done(), now, actions);
  } else if (message.has_evaluation_done()) {
    OnEvaluationDone(id, message.evaluation_done(), now, actions);
  } else if (message.has_save_done()) {
    OnSaveDone(id, message.save_done(), now, actions);
  } else if (message.has_fenced() && id.role == proto::PS) {
    OnFenced(message.fenced(), now, actions);
  } else if (message.has_pausing() && id.role == proto::WORKER) {
    OnPausing(id, message.pausing(), now, actions);
  }
}

// ------------------------------------------------------------------------------------------ the course

void JobController::Advance(Nanoseconds now, Actions& actions) {
  const bool has_servers = plan_.placement().servers() > 0;
  const bool workers_done = roster_.All(proto::WORKER, &TaskState::answered);
  if (phase_ == Phase::kGather && roster_.All(proto::WORKER, &TaskState::joined) &&
      (!has_servers || roster_.All(proto::PS, &TaskState::joined))) {
    SetUpAll(has_servers ? proto::PS : proto::WORKER, actions);
  } else if (phase_ == Phase::kServerSetup && roster_.All(proto::PS, &TaskState::ready)) {
    SetUpAll(proto::WORKER, actions);
  } else if (phase_ == Phase::kWorkerSetup && roster_.All(proto::WORKER, &TaskState::ready)) {
    StartTraining(now, actions);
  } else if (phase_ == Phase::kTrain && workers_done && !losses_.settling()) {
    FinishSegment(now, actions);
  } else if (phase_ == Phase::kEvaluate && workers_done) {
    FinishEvaluation(now, actions);
  }
}

// --------------------------------------------------------------------------------------------- training

void JobController::StartTraining(Nanoseconds now, Actions& actions) {
  for (const TaskId id : roster_.Present(proto::WORKER)) running_.leases().Join(id.index);
  startup_seconds_ = ToSeconds(now - started_);
  last_save_ = now;
  proto::ProgressEvent event;
  proto::Started& started = *event.mutable_started();
  started.set_workers(plan_.job().workers());
  started.set_servers(plan_.placement().servers());
  started.set_train_samples(plan_.train_samples());
  started.set_epochs(plan_.job().epochs());
  started.set_seconds(startup_seconds_);
  actions.push_back(Report{std::move(event)});
  if (!summary_.exchange().empty()) {
    proto::ProgressEvent choice;
    choice.set_note("gradients are exchanged by " + summary_.exchange());
    actions.push_back(Report{std::move(choice)});
  }
  Continue(now, actions);
}

void JobController::Continue(Nanoseconds now, Actions& actions) {
  const bool finished = planner_.Finished(state_);
  if (epoch_ended_) {
    if (plan_.validation_samples() > 0 && plan_.job().evaluate_each_epoch() && !epoch_result_.validated()) {
      return BeginEvaluation(proto::VALIDATION, now, actions);
    }
    ReportEpoch(actions);
  }
  if (interrupted_) return EndInterrupted(now, actions);
  if (save_pending_) return BeginSave(now, actions);
  if (!finished) return RunSegment(now, actions);
  if (!tested_ && plan_.test_samples() > 0) return BeginEvaluation(proto::TEST, now, actions);
  if (!final_saved_) {
    final_saved_ = true;
    return BeginSave(now, actions);
  }
  phase_begin_ = now;
  Finish(actions);
}

void JobController::RunSegment(Nanoseconds now, Actions& actions) {
  phase_ = Phase::kTrain;
  running_.Open(planner_.Next(state_));
  segment_begin_ = now;
  first_done_ = 0;
  final_saved_ = false;
  save_tried_ = false;
  SendRuns(actions);
}

void JobController::SendRuns(Actions& actions) {
  running_.BeginRun();
  for (const TaskId id : roster_.Present(proto::WORKER)) SendRun(id, actions);
}

void JobController::SendRun(TaskId id, Actions& actions) {
  proto::ToTask order;
  *order.mutable_run() = running_.RunOrder(state_.step());
  roster_.at(id).answered = false;
  Send(id, std::move(order), actions);
  if (planner_.leased()) running_.SendLeases(id.index, RunningSegment::kLeasesAhead, actions);
}

void JobController::OnLeaseRequest(TaskId id, const proto::LeaseRequest& request, Actions& actions) {
  if (phase_ != Phase::kTrain || !planner_.leased()) return;
  running_.SendLeases(id.index, std::clamp(request.batches(), 1, RunningSegment::kLeasesAhead), actions);
}

void JobController::OnSteps(TaskId id, const proto::StepRecords& records, Nanoseconds now, Actions& actions) {
  TaskState& task = roster_.at(id);
  for (const proto::StepRecord& record : records.record()) {
    if (const absl::Status status = CheckRecord(record); !status.ok()) {
      return Fail(Annotate(status, roster_.Describe(id)), id, now);
    }
    task.step = std::max(task.step, record.step() + 1);
    if (phase_ != Phase::kTrain) continue;
    const Slice positions = running_.Positions(record.sample_begin(), record.samples());
    if (const absl::Status status = running_.Use(id.index, positions); !status.ok()) {
      return Fail(status, id, now);
    }
    actions.push_back(
        WriteJournal{journal::Used(id.index, record.step(), record.sample_begin(), record.samples())});
    epoch_sums_.Add(record);
  }
  actions.push_back(KeepRecords{records, task.heartbeat.clock_offset_ns()});
}

void JobController::OnApplied(TaskId id, const proto::AppliedPushes& applied, Actions& actions) {
  for (const proto::AppliedPush& push : applied.push()) {
    roster_.at(id).step = std::max(roster_.at(id).step, push.version());
    actions.push_back(WriteJournal{journal::Applied(id.index, push)});
    running_.leases().Applied(id.index, running_.Positions(push.sample_begin(), push.sample_count()));
  }
}

void JobController::OnSegmentDone(TaskId id, const proto::SegmentDone& done, Nanoseconds now,
                                  Actions& actions) {
  if (phase_ != Phase::kTrain || done.segment() != running_.run()) return;
  if (first_done_ == 0) first_done_ = now;
  roster_.at(id).answered = true;
  // It had ended the segment before it was asked to pause.
  if (interrupted_ && !planner_.leased()) NotePausing(id, running_.segment().steps, actions);
  Advance(now, actions);
}

void JobController::FinishSegment(Nanoseconds now, Actions& actions) {
  // What a lost worker held came back too late to be given to those who were done.
  if (running_.ReopenIfUnfinished()) return SendRuns(actions);
  if (const absl::Status status = running_.CheckAllUsed(); !status.ok()) return Fail(status, TaskId(), now);
  const TrainingSegment& segment = running_.segment();
  const double seconds = ToSeconds(now - segment_begin_);
  training_seconds_here_ += seconds;
  epoch_barrier_seconds_ += ToSeconds(now - first_done_);
  state_.set_training_seconds(state_.training_seconds() + seconds);
  state_.set_epoch_seconds(state_.epoch_seconds() + seconds);
  state_.set_step(state_.step() + segment.steps);
  state_.set_position(segment.positions.end);
  if (segment.ends_epoch) {
    actions.push_back(WriteJournal{journal::EpochDone(segment.epoch, segment.positions.end)});
    state_.set_epoch(segment.epoch + 1);
    state_.set_position(0);
  }
  epoch_ended_ = segment.ends_epoch || planner_.Finished(state_);
  save_pending_ = planner_.SaveDue(state_, segment.ends_epoch, ToSeconds(now - last_save_));
  epoch_result_.Clear();
  Continue(now, actions);
}

// ------------------------------------------------------------------------------------------------ ending

void JobController::Finish(Actions& actions) {
  if (last_save_failed_) {
    return Stop(
        absl::ResourceExhaustedError(absl::StrCat("the final checkpoint was not saved: ", save_error_)),
        {proto::CHIEF, 0}, actions);
  }
  Stop(absl::OkStatus(), TaskId(), actions);
}

void JobController::Stop(absl::Status status, TaskId culprit, Actions& actions) {
  phase_ = Phase::kStopping;
  end_status_ = status;
  if (status.ok()) {
    actions.push_back(WriteJournal{journal::End(state_)});
  } else {
    first_failure_.set_role(culprit.role == proto::WORKER ? "worker"
                            : culprit.role == proto::PS   ? "ps"
                                                          : "chief");
    first_failure_.set_index(culprit.index);
    first_failure_.set_message(StatusText(status));
    first_failure_.set_last_step(state_.step());
    if (roster_.Has(culprit)) {
      first_failure_.set_host(roster_.at(culprit).member.host());
      first_failure_.set_last_step(roster_.at(culprit).step);
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
