#include "runtime/chief/job_controller.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "runtime/chief/journal.h"
#include "runtime/cluster/job_plan.h"

namespace tethys {
namespace {

// Batches a worker holds ahead, asynchronously.
constexpr int kLeasesAhead = 4;
constexpr int kMaxExchangeText = 1024;
constexpr int kMaxSamplesPerBeat = 16;  // An honest task sends two.
constexpr Nanoseconds kProgressInterval = 250 * kMillisecond;
// How long a failure that looks like an echo waits for its cause.
constexpr Nanoseconds kEchoPatience = 500 * kMillisecond;
// Arena slices that workers save start at multiples of this many elements.
constexpr int64_t kSaveGrain = 1024;

bool LooksLikeEcho(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsAborted(status) ||
         absl::IsCancelled(status);
}

}  // namespace

proto::Quality JobController::Sums::Quality() const {
  proto::Quality quality;
  quality.set_samples(samples);
  if (samples > 0) {
    quality.set_loss(loss / static_cast<double>(samples));
    quality.set_accuracy(static_cast<double>(correct) / static_cast<double>(samples));
  }
  return quality;
}

JobController::JobController(proto::JobPlan plan, proto::TrainingState state, bool restore, Nanoseconds now)
    : plan_(std::move(plan)),
      planner_(plan_),
      restore_(restore),
      started_(now),
      silence_(FromSeconds(plan_.job().timeouts().silence())),
      start_timeout_(FromSeconds(plan_.job().timeouts().start())),
      state_(std::move(state)) {
  for (int i = 0; i < plan_.job().workers(); ++i) tasks_[{proto::WORKER, i}];
  for (int i = 0; i < plan_.placement().servers(); ++i) tasks_[{proto::PS, i}];
  epoch_sums_ = {state_.loss_sum(), state_.correct(), state_.samples()};
}

// ------------------------------------------------------------------------------------------ membership

absl::Status JobController::Admit(TaskId id, uint32_t incarnation, Nanoseconds now) {
  const auto it = tasks_.find(id);
  if (it == tasks_.end()) {
    return absl::InvalidArgumentError(absl::StrCat("this job has no ", TaskName(id.role, id.index)));
  }
  TaskState& task = it->second;
  if (task.last_heard != 0) {
    return absl::AlreadyExistsError(absl::StrCat(TaskName(id.role, id.index), " has joined already"));
  }
  if (phase_ != Phase::kGather) return absl::AbortedError("the job no longer takes members");
  task.member.set_role(id.role);
  task.member.set_index(id.index);
  task.member.set_incarnation(incarnation);
  task.last_heard = now;
  return absl::OkStatus();
}

void JobController::OnMessage(TaskId id, const proto::FromTask& message, Nanoseconds now, Actions& actions) {
  TaskState& task = tasks_.at(id);
  task.last_heard = now;
  // What was measured is kept whatever the phase; what would move the job on is not heeded once it ends.
  if (message.has_steps()) return OnSteps(id, message.steps(), now, actions);
  if (message.has_applied()) return OnApplied(id, message.applied(), actions);
  if (message.has_heartbeat()) return OnHeartbeat(id, message.heartbeat(), now, actions);
  if (message.has_failure()) return OnFailure(id, message.failure(), now);
  if (phase_ == Phase::kStopping || phase_ == Phase::kEnded) return;
  if (message.has_join()) {
    OnJoin(id, message.join(), now, actions);
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
  }
}

void JobController::OnJoin(TaskId id, const proto::Join& join, Nanoseconds, Actions& actions) {
  TaskState& task = tasks_.at(id);
  if (phase_ != Phase::kGather || task.joined) return;
  task.joined = true;
  task.member.set_host(join.host());
  task.member.set_data_address(join.data_address());
  actions.push_back(WriteJournal{journal::Member(task.member)});
  for (const auto& [other, other_state] : tasks_) {
    if (!other_state.joined) return;
  }
  SetUp(plan_.placement().servers() > 0 ? proto::PS : proto::WORKER, actions);
}

void JobController::SetUp(proto::Role role, Actions& actions) {
  phase_ = role == proto::PS ? Phase::kServerSetup : Phase::kWorkerSetup;
  proto::ToTask order;
  proto::Setup& setup = *order.mutable_setup();
  *setup.mutable_plan() = plan_;
  setup.set_generation(1);
  setup.set_restore(restore_);
  *setup.mutable_state() = state_;
  for (const auto& [id, task] : tasks_) *setup.add_member() = task.member;
  for (const TaskId id : Tasks(role)) Send(id, order, actions);
}

void JobController::OnReady(TaskId id, const proto::Ready& ready, Nanoseconds now, Actions& actions) {
  TaskState& task = tasks_.at(id);
  task.ready = true;
  task.setup_ns = ready.setup_ns();
  if (!ready.exchange().empty()) summary_.set_exchange(ready.exchange().substr(0, kMaxExchangeText));
  for (const TaskId other : Tasks(id.role)) {
    if (!tasks_.at(other).ready) return;
  }
  if (phase_ == Phase::kServerSetup && id.role == proto::PS) {
    SetUp(proto::WORKER, actions);
  } else if (phase_ == Phase::kWorkerSetup && id.role == proto::WORKER) {
    StartTraining(now, actions);
  }
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

void JobController::OnFailure(TaskId id, const proto::Failure& failure, Nanoseconds now) {
  tasks_.at(id).step = std::max(tasks_.at(id).step, failure.step());
  const absl::Status status(static_cast<absl::StatusCode>(failure.status_code()),
                            absl::StrCat(Describe(id), ": ", failure.message()));
  FailAt({status.ok() ? absl::UnknownError(status.message()) : status, id, LooksLikeEcho(status), 0}, now);
}

void JobController::OnGone(TaskId id, Nanoseconds now, Actions& actions) {
  TaskState& task = tasks_.at(id);
  task.gone = true;
  if (phase_ == Phase::kStopping || phase_ == Phase::kEnded) return OnTick(now, actions);
  // A task that said why it failed is not lost on top of that.
  if (failure_.has_value() && failure_->culprit == id) return;
  actions.push_back(WriteJournal{journal::Lost(id.role, id.index, "its session ended")});
  FailAt({absl::UnavailableError(
              absl::StrCat("lost ", Describe(id), ": its session ended, last step ", task.step)),
          id, false, 0},
         now);
  OnTick(now, actions);
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
  // A chief that did not run itself cannot tell who was silent meanwhile.
  const Nanoseconds pause = now - last_tick_;
  for (auto& [id, task] : tasks_) {
    if (last_tick_ != 0 && pause > silence_ / 2 && task.last_heard != 0) task.last_heard += pause;
    if (task.last_heard == 0 || task.gone || now - task.last_heard <= silence_) continue;
    FailAt({absl::DeadlineExceededError(absl::StrCat("lost ", Describe(id), ": it was silent for ",
                                                     ToSeconds(silence_), " s (timeouts.silence), last step ",
                                                     task.step)),
            id, false, 0},
           now);
  }
  last_tick_ = now;
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

// --------------------------------------------------------------------------------------------- training

void JobController::StartTraining(Nanoseconds now, Actions& actions) {
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
  ledger_ = std::make_unique<SampleLedger>(segment_.positions, planner_.leased() ? planner_.batch() : 0,
                                           plan_.job().workers());
  segment_begin_ = now;
  first_done_ = 0;
  final_saved_ = false;
  ExpectAnswers();
  proto::ToTask order;
  proto::Run& run = *order.mutable_run();
  run.set_segment(++segment_id_);
  run.set_epoch(segment_.epoch);
  run.set_begin(segment_.positions.begin);
  run.set_end(segment_.positions.end);
  run.set_first_step(state_.step());
  for (const TaskId id : Tasks(proto::WORKER)) {
    Send(id, order, actions);
    if (planner_.leased()) SendLeases(id, kLeasesAhead, actions);
  }
}

void JobController::OnLeaseRequest(TaskId id, const proto::LeaseRequest& request, Actions& actions) {
  if (phase_ != Phase::kTrain || !planner_.leased()) return;
  SendLeases(id, std::clamp(request.batches(), 1, kLeasesAhead), actions);
}

void JobController::SendLeases(TaskId id, int batches, Actions& actions) {
  proto::ToTask order;
  proto::Lease& lease = *order.mutable_lease();
  lease.set_segment(segment_id_);
  for (const Slice& slice : ledger_->Lease(id.index, batches)) {
    lease.add_range()->set_begin(slice.begin);
    lease.mutable_range()->rbegin()->set_end(slice.end);
    actions.push_back(WriteJournal{journal::Lease(id.index, segment_.epoch, slice.begin, slice.end)});
  }
  lease.set_last(ledger_->all_leased());
  Send(id, std::move(order), actions);
}

void JobController::OnSteps(TaskId id, const proto::StepRecords& records, Nanoseconds now, Actions& actions) {
  TaskState& task = tasks_.at(id);
  for (const proto::StepRecord& record : records.record()) {
    task.step = std::max(task.step, record.step() + 1);
    if (phase_ != Phase::kTrain) continue;
    const int64_t begin = record.sample_begin() - JobPosition(segment_.epoch, plan_.train_samples(), 0);
    if (record.samples() > 0) {
      if (absl::Status status = ledger_->Use(id.index, {begin, begin + record.samples()}); !status.ok()) {
        return FailAt({status, id, false, 0}, now);
      }
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
  }
}

void JobController::OnSegmentDone(TaskId id, const proto::SegmentDone& done, Nanoseconds now,
                                  Actions& actions) {
  if (phase_ != Phase::kTrain || done.segment() != segment_id_) return;
  if (first_done_ == 0) first_done_ = now;
  tasks_.at(id).answered = true;
  if (AllAnswered(proto::WORKER)) FinishSegment(now, actions);
}

void JobController::FinishSegment(Nanoseconds now, Actions& actions) {
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

// ---------------------------------------------------------------------------------------------- saving

proto::Role JobController::SaveSources() const {
  return plan_.placement().servers() > 0 ? proto::PS : proto::WORKER;
}

void JobController::BeginSave(Nanoseconds now, Actions& actions) {
  phase_ = Phase::kSave;
  save_pending_ = false;
  final_saved_ = planner_.Finished(state_);
  phase_begin_ = now;
  save_error_.clear();
  proto::TrainingState state = state_;
  state.set_loss_sum(epoch_sums_.loss);
  state.set_correct(epoch_sums_.correct);
  state.set_samples(epoch_sums_.samples);
  actions.push_back(OpenSave{++order_id_, std::move(state)});
}

void JobController::SaveOpened(const absl::Status& status, Nanoseconds now, Actions& actions) {
  if (phase_ != Phase::kSave) return;
  if (!status.ok()) return EndSave(status, "", now, actions);
  ExpectAnswers();
  const int64_t arena = plan_.variable().empty() ? 0 : [this] {
    const proto::VariableSpec& last = *plan_.variable().rbegin();
    int64_t count = 1;
    for (const int64_t axis : last.shape()) count *= axis;
    return AlignUp(last.begin() + count);
  }();
  const std::vector<TaskId> sources = Tasks(SaveSources());
  const int64_t grains = (arena + kSaveGrain - 1) / kSaveGrain;
  for (const TaskId id : sources) {
    proto::ToTask order;
    proto::Save& save = *order.mutable_save();
    save.set_id(order_id_);
    const Slice slice = SplitSlice({0, grains}, id.index, static_cast<int64_t>(sources.size()));
    save.set_first(std::min(arena, slice.begin * kSaveGrain));
    save.set_count(std::min(arena, slice.end * kSaveGrain) - save.first());
    Send(id, std::move(order), actions);
  }
}

void JobController::OnSaveDone(TaskId id, const proto::SaveDone& done, Nanoseconds now, Actions& actions) {
  if (phase_ != Phase::kSave || done.id() != order_id_) return;
  if (!done.error().empty() && save_error_.empty()) {
    save_error_ = absl::StrCat(TaskName(id.role, id.index), ": ", done.error());
  }
  tasks_.at(id).answered = true;
  if (!AllAnswered(SaveSources())) return;
  if (save_error_.empty()) {
    actions.push_back(CommitSave{});
  } else {
    actions.push_back(AbandonSave{});
    EndSave(absl::UnavailableError(save_error_), "", now, actions);
  }
}

void JobController::SaveCommitted(const absl::Status& status, const std::string& directory, Nanoseconds now,
                                  Actions& actions) {
  if (phase_ == Phase::kSave) EndSave(status, directory, now, actions);
}

void JobController::EndSave(const absl::Status& status, const std::string& directory, Nanoseconds now,
                            Actions& actions) {
  checkpoint_seconds_ += ToSeconds(now - phase_begin_);
  proto::ProgressEvent event;
  last_save_failed_ = !status.ok();
  if (status.ok()) {
    summary_.set_checkpoints_written(summary_.checkpoints_written() + 1);
    summary_.set_last_checkpoint(directory);
    actions.push_back(WriteJournal{journal::Saved(state_)});
    event.set_note(absl::StrCat("saved ", directory));
  } else {
    save_error_ = StatusText(status);
    event.set_note(absl::StrCat("warning: the checkpoint of step ", state_.step(), " was not saved (",
                                save_error_, "); ",
                                summary_.last_checkpoint().empty()
                                    ? "there is none yet"
                                    : absl::StrCat("the last good one is ", summary_.last_checkpoint())));
  }
  actions.push_back(Report{std::move(event)});
  Continue(now, actions);
}

// ------------------------------------------------------------------------------------------- evaluation

void JobController::BeginEvaluation(proto::Split split, Nanoseconds now, Actions& actions) {
  phase_ = Phase::kEvaluate;
  split_ = split;
  evaluation_ = {};
  phase_begin_ = now;
  ExpectAnswers();
  ++order_id_;
  const int64_t samples = split == proto::TEST ? plan_.test_samples() : plan_.validation_samples();
  for (const TaskId id : Tasks(proto::WORKER)) {
    const Slice slice = EvaluationSlice(samples, id.index, plan_.job().workers());
    proto::ToTask order;
    proto::Evaluate& evaluate = *order.mutable_evaluate();
    evaluate.set_id(order_id_);
    evaluate.set_split(split);
    evaluate.set_begin(slice.begin);
    evaluate.set_end(slice.end);
    Send(id, std::move(order), actions);
  }
}

void JobController::OnEvaluationDone(TaskId id, const proto::EvaluationDone& done, Nanoseconds now,
                                     Actions& actions) {
  if (phase_ != Phase::kEvaluate || done.id() != order_id_) return;
  evaluation_.loss += done.loss_sum();
  evaluation_.correct += done.correct();
  evaluation_.samples += done.samples();
  tasks_.at(id).answered = true;
  if (AllAnswered(proto::WORKER)) FinishEvaluation(now, actions);
}

void JobController::FinishEvaluation(Nanoseconds now, Actions& actions) {
  const double seconds = ToSeconds(now - phase_begin_);
  const proto::Quality quality = evaluation_.Quality();
  if (split_ == proto::TEST) {
    tested_ = true;
    *summary_.mutable_test() = quality;
  } else {
    *summary_.mutable_validation() = quality;
    epoch_result_.set_validated(true);
    epoch_result_.set_validation_loss(quality.loss());
    epoch_result_.set_validation_accuracy(quality.accuracy());
    epoch_result_.set_validation_seconds(seconds);
  }
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

// ----------------------------------------------------------------------------------------------- reports

void JobController::ReportProgress(Nanoseconds now, Actions& actions) {
  last_progress_ = now;
  proto::ProgressEvent event;
  proto::Progress& progress = *event.mutable_progress();
  const bool training = phase_ == Phase::kTrain;
  const int64_t done = training ? segment_.positions.begin + ledger_->used_count() : state_.position();
  progress.set_epoch(training ? segment_.epoch : state_.epoch());
  progress.set_epoch_samples_done(done);
  progress.set_epoch_samples(planner_.epoch_positions());
  const proto::Quality quality = epoch_sums_.Quality();
  progress.set_loss(quality.loss());
  progress.set_accuracy(quality.accuracy());
  progress.set_step(state_.step() + (training ? ledger_->used_count() / planner_.batch() : 0));
  const double seconds = state_.epoch_seconds() + (training ? ToSeconds(now - segment_begin_) : 0);
  if (seconds > 0 && done > 0) {
    const double rate = static_cast<double>(done) / seconds;
    progress.set_samples_per_second(rate);
    const double steps_left =
        static_cast<double>(std::max<int64_t>(0, planner_.total_steps() - progress.step()));
    progress.set_eta_seconds(steps_left * static_cast<double>(planner_.batch()) / rate);
  }
  actions.push_back(Report{std::move(event)});
}

void JobController::ReportEpoch(Actions& actions) {
  epoch_ended_ = false;
  proto::EpochResult& result = epoch_result_;
  const proto::Quality quality = epoch_sums_.Quality();
  result.set_epoch(segment_.epoch);
  result.set_step(state_.step());
  result.set_train_loss(quality.loss());
  result.set_train_accuracy(quality.accuracy());
  result.set_train_seconds(state_.epoch_seconds());
  result.set_barrier_seconds(epoch_barrier_seconds_);
  if (state_.epoch_seconds() > 0) {
    result.set_samples_per_second(static_cast<double>(epoch_sums_.samples) / state_.epoch_seconds());
  }
  *summary_.mutable_train() = quality;
  proto::ProgressEvent event;
  *event.mutable_epoch() = result;
  actions.push_back(Report{std::move(event)});
  if (state_.position() == 0) {
    epoch_sums_ = {};
    state_.set_epoch_seconds(0);
  }
  epoch_barrier_seconds_ = 0;
}

void JobController::FillSummary(Nanoseconds now, proto::RunSummary& summary) const {
  summary.MergeFrom(summary_);
  summary.set_steps(state_.step());
  summary.set_epochs(state_.epoch());
  if (!end_status_.ok()) *summary.mutable_first_failure() = first_failure_;
  proto::Timing& timing = *summary.mutable_timing();
  timing.set_total_seconds(ToSeconds(now - started_));
  timing.set_startup_seconds(startup_seconds_);
  timing.set_training_seconds(state_.training_seconds());
  timing.set_checkpoint_seconds(checkpoint_seconds_);
  for (const auto& [id, task] : tasks_) {
    if (id.role == proto::WORKER) {
      timing.set_plan_seconds(std::max(timing.plan_seconds(), ToSeconds(task.setup_ns)));
    }
    proto::TaskSummary& line = *summary.add_task();
    line.set_role(id.role == proto::WORKER ? "worker" : "ps");
    line.set_index(id.index);
    line.set_host(task.member.host());
    line.set_resident_bytes(task.heartbeat.resident_bytes());
    line.set_clock_offset_ns(task.heartbeat.clock_offset_ns());
    line.set_clock_error_ns(task.heartbeat.clock_error_ns());
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
    if (id.role == role) ids.push_back(id);
  }
  return ids;
}

std::string JobController::Describe(TaskId id) const {
  const std::string& host = tasks_.at(id).member.host();
  return absl::StrCat(TaskName(id.role, id.index), host.empty() ? "" : absl::StrCat(" on ", host));
}

}  // namespace tethys
