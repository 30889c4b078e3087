#include "runtime/chief/job_controller.h"

#include <algorithm>

#include "runtime/chief/journal.h"
#include "runtime/cluster/job_plan.h"

namespace tethys {
namespace {

// Batches a worker holds ahead.
constexpr int kLeasesAhead = 4;

}  // namespace

JobController::JobController(proto::JobPlan plan, proto::TrainingState state, bool restore, Nanoseconds now)
    : plan_(std::move(plan)),
      planner_(plan_),
      restore_(restore),
      started_(now),
      silence_(FromSeconds(plan_.job().timeouts().silence())),
      start_timeout_(FromSeconds(plan_.job().timeouts().start())),
      state_(std::move(state)),
      leases_(planner_.in_rounds()) {
  for (int i = 0; i < plan_.job().workers(); ++i) tasks_[{proto::WORKER, i}];
  for (int i = 0; i < plan_.placement().servers(); ++i) tasks_[{proto::PS, i}];
  epoch_sums_ = {state_.loss_sum(), state_.correct(), state_.samples()};
}

void JobController::OnMessage(TaskId id, uint32_t incarnation, const proto::FromTask& message,
                              Nanoseconds now, Actions& actions) {
  if (!Concerns(id, incarnation, message)) return;
  TaskState& task = tasks_.at(id);
  task.last_heard = now;
  // What was measured is kept whatever the phase; what would move the job on is not heeded once it ends.
  if (message.has_steps()) return OnSteps(id, message.steps(), now, actions);
  if (message.has_applied()) return OnApplied(id, message.applied(), actions);
  if (message.has_heartbeat()) return OnHeartbeat(id, message.heartbeat(), now, actions);
  if (message.has_failure()) return OnFailure(id, message.failure(), now);
  if (phase_ == Phase::kStopping || phase_ == Phase::kEnded) return;
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
  } else if (message.has_fenced()) {
    OnFenced(message.fenced(), now, actions);
  }
}

// ------------------------------------------------------------------------------------------ the course

void JobController::Advance(Nanoseconds now, Actions& actions) {
  const auto all = [this](proto::Role role, bool TaskState::*flag) {
    const std::vector<TaskId> ids = Tasks(role);
    return !ids.empty() &&
           std::all_of(ids.begin(), ids.end(), [&](TaskId id) { return tasks_.at(id).*flag; });
  };
  const bool has_servers = plan_.placement().servers() > 0;
  const bool workers_done = all(proto::WORKER, &TaskState::answered);
  if (phase_ == Phase::kGather && all(proto::WORKER, &TaskState::joined) &&
      (!has_servers || all(proto::PS, &TaskState::joined))) {
    SetUpAll(has_servers ? proto::PS : proto::WORKER, actions);
  } else if (phase_ == Phase::kServerSetup && all(proto::PS, &TaskState::ready)) {
    SetUpAll(proto::WORKER, actions);
  } else if (phase_ == Phase::kWorkerSetup && all(proto::WORKER, &TaskState::ready)) {
    StartTraining(now, actions);
  } else if (phase_ == Phase::kTrain && workers_done && !Settling()) {
    FinishSegment(now, actions);
  } else if (phase_ == Phase::kEvaluate && workers_done) {
    if (evaluate_again_) return BeginEvaluation(split_, now, actions);
    FinishEvaluation(now, actions);
  }
}

// --------------------------------------------------------------------------------------------- training

void JobController::StartTraining(Nanoseconds now, Actions& actions) {
  for (const TaskId id : Tasks(proto::WORKER)) leases_.Join(id.index);
  startup_seconds_ = ToSeconds(now - started_);
  proto::ProgressEvent event;
  proto::Started& started = *event.mutable_started();
  started.set_workers(plan_.job().workers());
  started.set_servers(plan_.placement().servers());
  started.set_train_samples(plan_.train_samples());
  started.set_epochs(plan_.job().epochs());
  started.set_seconds(startup_seconds_);
  actions.push_back(Report{std::move(event)});
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
  segment_ = planner_.Next(state_);
  ledger_ = std::make_unique<SampleLedger>(segment_.positions);
  if (planner_.leased()) leases_.Open(planner_.Batches(segment_));
  segment_begin_ = now;
  first_done_ = 0;
  final_saved_ = false;
  SendRuns(actions);
}

void JobController::SendRuns(Actions& actions) {
  ++segment_id_;
  for (const TaskId id : Tasks(proto::WORKER)) SendRun(id, actions);
}

void JobController::SendRun(TaskId id, Actions& actions) {
  proto::ToTask order;
  proto::Run& run = *order.mutable_run();
  run.set_segment(segment_id_);
  run.set_epoch(segment_.epoch);
  run.set_begin(segment_.positions.begin);
  run.set_end(segment_.positions.end);
  run.set_first_step(state_.step());
  tasks_.at(id).answered = false;
  Send(id, std::move(order), actions);
  if (planner_.leased()) SendLeases(id, kLeasesAhead, actions);
}

void JobController::OnLeaseRequest(TaskId id, const proto::LeaseRequest& request, Actions& actions) {
  if (phase_ != Phase::kTrain || !planner_.leased()) return;
  SendLeases(id, std::clamp(request.batches(), 1, kLeasesAhead), actions);
}

void JobController::SendLeases(TaskId id, int batches, Actions& actions) {
  proto::ToTask order;
  proto::Lease& lease = *order.mutable_lease();
  lease.set_segment(segment_id_);
  const LeaseBook::Leases leases = leases_.Lease(id.index, batches);
  for (const BatchLease& batch : leases.batches) {
    proto::LeaseRange& range = *lease.add_range();
    range.set_begin(batch.positions.begin);
    range.set_end(batch.positions.end);
    range.set_clock(batch.clock);
    range.set_step_begin(batch.step.begin);
    range.set_step_count(batch.step.count());
    actions.push_back(
        WriteJournal{journal::Lease(id.index, segment_.epoch, batch.positions.begin, batch.positions.end)});
  }
  lease.set_last(leases.last);
  Send(id, std::move(order), actions);
}

absl::Status JobController::Use(TaskId id, Slice positions) {
  if (positions.count() == 0) return absl::OkStatus();
  if (planner_.leased()) TETHYS_RETURN_IF_ERROR(leases_.Use(id.index, positions));
  return ledger_->Use(id.index, positions);
}

int64_t JobController::JobBegin(Slice positions) const {
  return JobPosition(segment_.epoch, plan_.train_samples(), positions.begin);
}

void JobController::OnSteps(TaskId id, const proto::StepRecords& records, Nanoseconds now, Actions& actions) {
  TaskState& task = tasks_.at(id);
  for (const proto::StepRecord& record : records.record()) {
    task.step = std::max(task.step, record.step() + 1);
    if (phase_ != Phase::kTrain) continue;
    const int64_t begin = record.sample_begin() - JobBegin({});
    if (absl::Status status = Use(id, {begin, begin + record.samples()}); !status.ok()) {
      return FailAt({status, id, false, 0}, now);
    }
    actions.push_back(
        WriteJournal{journal::Used(id.index, record.step(), record.sample_begin(), record.samples())});
    epoch_sums_.loss += record.loss_sum();
    epoch_sums_.correct += record.correct();
    epoch_sums_.samples += record.samples();
  }
  actions.push_back(KeepRecords{records, task.heartbeat.clock_offset_ns()});
}

void JobController::OnApplied(TaskId id, const proto::AppliedPushes& applied, Actions& actions) {
  for (const proto::AppliedPush& push : applied.push()) {
    tasks_.at(id).step = std::max(tasks_.at(id).step, push.version());
    actions.push_back(WriteJournal{journal::Applied(id.index, push)});
    const int64_t begin = push.sample_begin() - JobBegin({});
    leases_.Applied(id.index, {begin, begin + push.sample_count()});
  }
}

void JobController::OnSegmentDone(TaskId id, const proto::SegmentDone& done, Nanoseconds now,
                                  Actions& actions) {
  if (phase_ != Phase::kTrain || done.segment() != segment_id_) return;
  if (first_done_ == 0) first_done_ = now;
  tasks_.at(id).answered = true;
  Advance(now, actions);
}

void JobController::FinishSegment(Nanoseconds now, Actions& actions) {
  // What a lost worker held came back too late to be given to those who were done.
  if (leases_.has_free()) {
    leases_.Reopen();
    return SendRuns(actions);
  }
  if (!ledger_->all_used()) {
    return FailAt(
        {absl::InternalError(absl::StrCat("position ", ledger_->first_unused(), " of epoch ", segment_.epoch,
                                          " was not used though every worker says it is done")),
         TaskId(), false, 0},
        now);
  }
  const double seconds = ToSeconds(now - segment_begin_);
  training_seconds_here_ += seconds;
  epoch_barrier_seconds_ += ToSeconds(now - first_done_);
  state_.set_training_seconds(state_.training_seconds() + seconds);
  state_.set_epoch_seconds(state_.epoch_seconds() + seconds);
  state_.set_step(state_.step() + segment_.steps);
  state_.set_position(segment_.positions.end);
  if (segment_.ends_epoch) {
    actions.push_back(WriteJournal{journal::EpochDone(segment_.epoch, segment_.positions.end)});
    state_.set_epoch(segment_.epoch + 1);
    state_.set_position(0);
  }
  epoch_ended_ = segment_.ends_epoch || planner_.Finished(state_);
  save_pending_ = planner_.SaveDue(state_, segment_.ends_epoch);
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
    if (const auto it = tasks_.find(culprit); it != tasks_.end()) {
      first_failure_.set_host(it->second.member.host());
      first_failure_.set_last_step(it->second.step);
    }
  }
  proto::ToTask order;
  order.mutable_stop()->set_failed(!status.ok());
  order.mutable_stop()->set_reason(std::string(status.message().data(), status.message().size()));
  for (const auto& [id, task] : tasks_) {
    if (task.last_heard != 0 && !task.gone) Send(id, order, actions);
  }
}

// ---------------------------------------------------------------------------------------------- helpers

bool JobController::AllAnswered(proto::Role role) const {
  for (const TaskId id : Tasks(role)) {
    if (!tasks_.at(id).answered) return false;
  }
  return true;
}

void JobController::ExpectAnswers() {
  for (auto& [id, task] : tasks_) task.answered = false;
}

std::vector<TaskId> JobController::Tasks(proto::Role role) const {
  std::vector<TaskId> ids;
  for (const auto& [id, task] : tasks_) {
    if (id.role == role && !task.lost && !task.late) ids.push_back(id);
  }
  return ids;
}

std::string JobController::Describe(TaskId id) const {
  const std::string& host = tasks_.at(id).member.host();
  return absl::StrCat(TaskName(id.role, id.index), host.empty() ? "" : absl::StrCat(" on ", host));
}

}  // namespace tethys
