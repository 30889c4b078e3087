// JobController's functions that report progress, epochs and the summary.
#include <algorithm>

#include "runtime/chief/attempts.h"
#include "runtime/chief/job_controller.h"

namespace tethys {
namespace {

// If the current epoch has trained for a shorter time than this, the rate is that of the whole attempt.
constexpr double kLeastRateSeconds = 3;

// Names the job's work in a phase other than training, for the user.
const char* DoingText(JobPhase phase) {
  switch (phase) {
    case JobPhase::kValidate:
      return "validating";
    case JobPhase::kTest:
      return "testing";
    case JobPhase::kSave:
      return "saving";
    case JobPhase::kRegroup:
      return "forming a group";
    default:
      return "";
  }
}

}  // namespace

void JobController::ReportProgress(Nanoseconds now, Actions& actions) {
  own_.set_last_progress_ns(now);
  proto::ProgressEvent event;
  proto::Progress& progress = *event.mutable_progress();
  const bool training = course_.in_segment();
  const TrainingSegment& segment = running_.segment();
  const int64_t done = training ? segment.positions.begin + running_.used_count() : state_.position();
  progress.set_doing(DoingText(course_.phase()));
  progress.set_epoch(training ? segment.epoch : state_.epoch());
  progress.set_epoch_samples_done(done);
  progress.set_epoch_samples(planner_.epoch_positions());
  const proto::Quality quality = epoch_sums_.Quality();
  progress.set_loss(quality.loss());
  if (quality.has_accuracy()) progress.set_accuracy(quality.accuracy());
  progress.set_step(state_.step() + (training ? running_.used_count() / planner_.batch() : 0));
  const double in_segment = training ? ToSeconds(now - own_.segment_begin_ns()) : 0;
  double seconds = state_.epoch_seconds() + in_segment, samples = static_cast<double>(done);
  if (seconds < kLeastRateSeconds) {
    // The records of the newest steps have not arrived yet. Early in an epoch, these steps are a large part
    // of the epoch's steps so far, so the epoch's own rate would be too low.
    seconds = own_.training_seconds() + in_segment;
    samples =
        static_cast<double>(progress.step() - own_.first_step()) * static_cast<double>(planner_.batch());
  }
  if (seconds > 0 && samples > 0) {
    const double rate = samples / seconds;
    progress.set_samples_per_second(rate);
    const double steps_left =
        static_cast<double>(std::max<int64_t>(0, planner_.total_steps() - progress.step()));
    progress.set_eta_seconds(steps_left * static_cast<double>(planner_.batch()) / rate);
  }
  for (proto::LateTask& late : roster_.LateTasks(now, planner_.leased()))
    *progress.add_late() = std::move(late);
  actions.push_back(Report{std::move(event)});
}

void JobController::AddChiefSamples(const std::string& host, const PulseBook::Samples& samples) {
  pulses_.AddChiefSamples(host, samples);
}

void JobController::ReportPulse(Nanoseconds now, Actions& actions) {
  own_.set_last_pulse_ns(now);
  proto::ProgressEvent event;
  *event.mutable_pulse() = pulses_.Take(roster_, now, SecondsSinceStart(now));
  actions.push_back(Report{std::move(event)});
}

void JobController::ReportEpoch(Actions& actions) {
  course_.EpochReported();
  proto::EpochResult& result = *own_.mutable_epoch_result();
  const proto::Quality quality = epoch_sums_.Quality();
  result.set_epoch(running_.segment().epoch);
  result.set_step(state_.step());
  result.set_train_loss(quality.loss());
  if (quality.has_accuracy()) result.set_train_accuracy(quality.accuracy());
  result.set_train_seconds(state_.epoch_seconds());
  result.set_barrier_seconds(own_.epoch_barrier_seconds());
  if (state_.epoch_seconds() > 0) {
    // Samples whose records were lost count as well, so the sums of the records are not used.
    const int64_t used = state_.position() > 0 ? state_.position() : planner_.epoch_positions();
    result.set_samples_per_second(static_cast<double>(used) / state_.epoch_seconds());
  }
  *own_.mutable_train() = quality;
  proto::ProgressEvent event;
  *event.mutable_epoch() = result;
  actions.push_back(Report{std::move(event)});
  if (state_.position() == 0) {
    epoch_sums_ = {};
    state_.set_epoch_seconds(0);
  }
  own_.set_epoch_barrier_seconds(0);
}

proto::Attempt JobController::OwnAttempt(Nanoseconds now) const {
  proto::Attempt attempt = NewAttempt(plan_, own_.first_step());
  attempt.set_end_step(state_.step());
  attempt.set_total_seconds(SecondsSinceStart(now));
  attempt.set_training_seconds(own_.training_seconds());
  attempt.set_validation_seconds(own_.validation_seconds());
  losses_.FillAttempt(attempt);
  return attempt;
}

double JobController::epochs_done() const {
  const double part = static_cast<double>(state_.position()) /
                      static_cast<double>(std::max<int64_t>(1, planner_.epoch_positions()));
  return static_cast<double>(state_.epoch()) + part;
}

void JobController::FillSummary(Nanoseconds now, proto::RunSummary& summary) const {
  summary.set_exchange(own_.exchange());
  if (own_.has_train()) *summary.mutable_train() = own_.train();
  if (own_.has_validation()) *summary.mutable_validation() = own_.validation();
  if (own_.has_test()) *summary.mutable_test() = own_.test();
  *summary.mutable_attempt() = state_.attempt();
  *summary.add_attempt() = OwnAttempt(now);
  losses_.FillSummary(summary);
  group_.FillSummary(summary);
  checkpoints_.FillSummary(summary);
  summary.set_steps(state_.step());
  summary.set_epochs(state_.epoch());
  if (state_.has_best()) *summary.mutable_best() = state_.best();
  summary.set_stopped_early(planner_.StoppedEarly(state_) && !planner_.ReachedItsLength(state_));
  if (own_.end().code() != 0 && !course_.interrupted()) {
    *summary.mutable_first_failure() = own_.first_failure();
    summary.mutable_first_failure()->set_message(own_.end().message());
  }
  proto::Timing& timing = *summary.mutable_timing();
  timing.set_total_seconds(TotalSeconds(summary.attempt()));
  timing.set_startup_seconds(own_.startup_seconds());
  timing.set_training_seconds(state_.training_seconds());
  timing.set_validation_seconds(state_.validation_seconds());
  for (const auto& [id, task] : roster_.tasks()) {
    if (id.role == proto::WORKER) {
      timing.set_plan_seconds(std::max(timing.plan_seconds(), ToSeconds(task.setup_ns)));
    }
    proto::TaskSummary& line = *summary.add_task();
    line.set_role(id.role == proto::WORKER ? "worker" : "ps");
    line.set_index(id.index);
    line.set_host(task.member.host());
    line.set_resident_bytes(task.heartbeat.resident_bytes());
    line.set_record_stall_seconds(ToSeconds(task.heartbeat.record_stall_ns()));
    line.set_clock_offset_ns(task.heartbeat.clock_offset_ns());
    line.set_clock_error_ns(task.heartbeat.clock_error_ns());
  }
}

}  // namespace tethys
