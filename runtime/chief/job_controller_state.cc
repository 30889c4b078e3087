// The state of JobController as a message. Each part writes and checks its own; here are the values that no
// part has, and the checks that concern several parts: those without which an event would break an invariant
// that the parts take for granted.
#include <algorithm>
#include <utility>

#include "runtime/chief/job_controller.h"
#include "runtime/chief/saved_values.h"
#include "runtime/cluster/job_plan.h"

namespace tethys {

void JobController::Save(proto::ChiefState& state) const {
  state.set_started_ns(started_);
  state.set_restore(restore_);
  state.set_first_step(first_step_);
  *state.mutable_saved_model() = saved_model_;
  state.set_saved_path(saved_path_);
  if (plan_.has_scaling()) *state.mutable_scaling() = plan_.scaling();

  roster_.Save(*state.mutable_roster());
  losses_.Save(*state.mutable_losses());

  course_.Save(*state.mutable_course());
  failure_.Save(*state.mutable_failure());
  *state.mutable_first_failure() = first_failure_;
  state.mutable_first_failure()->clear_message();
  Put(end_status_, *state.mutable_end());
  state.set_stopping_since_ns(stopping_since_);

  *state.mutable_training() = state_;
  running_.Save(*state.mutable_segment());
  statistics_.Save(*state.mutable_statistics());
  pause_.Save(*state.mutable_pause());
  epoch_sums_.Save(*state.mutable_epoch_sums());
  state.set_segment_begin_ns(segment_begin_);
  state.set_first_done_ns(first_done_);
  state.set_epoch_barrier_seconds(epoch_barrier_seconds_);
  state.set_training_seconds(training_seconds_here_);
  state.set_validation_seconds(validation_seconds_here_);
  state.set_startup_seconds(startup_seconds_);

  checkpoints_.Save(*state.mutable_save());
  evaluation_.Save(*state.mutable_evaluation());
  state.set_order_id(order_id_);
  *state.mutable_epoch_result() = epoch_result_;

  pulses_.Save(*state.mutable_pulse());
  state.set_last_pulse_ns(last_pulse_);
  state.set_last_progress_ns(last_progress_);

  state.set_exchange(summary_.exchange());
  if (summary_.has_train()) *state.mutable_train() = summary_.train();
  if (summary_.has_validation()) *state.mutable_validation() = summary_.validation();
  if (summary_.has_test()) *state.mutable_test() = summary_.test();
}

absl::StatusOr<std::unique_ptr<JobController>> JobController::Restore(proto::JobPlan plan,
                                                                      const proto::ChiefState& state) {
  StateCheck check;
  check.Time("started_ns", state.started_ns());
  check.Count("first_step", state.first_step());
  TETHYS_RETURN_IF_ERROR(Annotate(check.status(), "the chief's state"));
  proto::TrainingState start;
  start.set_step(state.first_step());
  const int workers = plan.job().workers();
  auto controller = std::make_unique<JobController>(std::move(plan), std::move(start), state.restore(),
                                                    StatisticsBook(workers, {}), state.started_ns());
  TETHYS_RETURN_IF_ERROR(Annotate(controller->RestoreParts(state), "the chief's state"));
  return controller;
}

absl::Status JobController::RestoreParts(const proto::ChiefState& state) {
  const int workers = plan_.job().workers();
  const int servers = plan_.placement().servers();
  StateCheck check;
  const auto part = [&check](absl::string_view name, const absl::Status& status) {
    check.And(Annotate(status, name));
  };
  // Each part may rely on those restored before it.
  part("roster", roster_.Restore(plan_, state.roster()));
  part("losses", losses_.Restore(state.losses()));
  part("course", course_.Restore(state.course()));
  part("failure", failure_.Restore(state.failure()));
  part("segment", running_.Restore(state.segment(), workers, servers));
  part("statistics", statistics_.Restore(state.statistics()));
  part("pause", pause_.Restore(state.pause(), planner_.StepsOf(planner_.epoch_positions())));
  part("epoch_sums", epoch_sums_.Restore(state.epoch_sums()));
  part("save", checkpoints_.Restore(state.save(), servers > 0 ? servers : workers));
  part("evaluation", evaluation_.Restore(state.evaluation(), workers));
  part("pulse", pulses_.Restore(state.pulse()));

  const proto::TrainingState& training = state.training();
  check.Count("training.step", training.step());
  check.Within("training.epoch", training.epoch(), 0, running_.last_epoch());
  check.Count("training.early_stopping.epochs_without", training.early_stopping().epochs_without());
  check.Count("order_id", state.order_id());
  check.Within("training.position", training.position(), 0,
               std::max<int64_t>(0, planner_.epoch_positions() - 1));
  for (const Nanoseconds time : {state.stopping_since_ns(), state.segment_begin_ns(), state.first_done_ns(),
                                 state.last_pulse_ns(), state.last_progress_ns()}) {
    check.Time("a time", time);
  }
  check.Status("end", state.end());
  TETHYS_RETURN_IF_ERROR(check.status());

  saved_model_ = state.saved_model();
  saved_path_ = state.saved_path();
  if (state.has_scaling()) *plan_.mutable_scaling() = state.scaling();
  first_failure_ = state.first_failure();
  end_status_ = StatusOf(state.end());
  first_failure_.set_message(state.end().message());
  stopping_since_ = state.stopping_since_ns();
  state_ = training;
  segment_begin_ = state.segment_begin_ns();
  first_done_ = state.first_done_ns();
  epoch_barrier_seconds_ = state.epoch_barrier_seconds();
  training_seconds_here_ = state.training_seconds();
  validation_seconds_here_ = state.validation_seconds();
  startup_seconds_ = state.startup_seconds();
  order_id_ = state.order_id();
  epoch_result_ = state.epoch_result();
  last_pulse_ = state.last_pulse_ns();
  last_progress_ = state.last_progress_ns();
  summary_.set_exchange(state.exchange());
  if (state.has_train()) *summary_.mutable_train() = state.train();
  if (state.has_validation()) *summary_.mutable_validation() = state.validation();
  if (state.has_test()) *summary_.mutable_test() = state.test();
  return CheckStages();
}

absl::Status JobController::CheckStages() const {
  const Phase phase = course_.phase();
  const TrainingSegment& segment = running_.segment();
  const bool saves = checkpoints_.state() != CheckpointCoordinator::State::kIdle;
  const bool pauses = pause_.state() != PauseCoordinator::State::kIdle;
  StateCheck check;
  check.That(phase == Phase::kTrain || ending() || running_.used_count() == segment.positions.count(),
             "samples of a segment are left at a barrier");
  check.That(phase != Phase::kTrain || (running_.open() && segment.epoch == state_.epoch() &&
                                        segment.positions.begin == state_.position()),
             "the job trains, but no segment begins at the last barrier");
  check.That(ending() || saves == (phase == Phase::kSave), "a save is open, or is due, in the wrong phase");
  check.That(!pauses || (interrupted() && running_.open() && !planner_.leased()),
             "a segment pauses, but nothing interrupted it");
  check.That(!course_.evaluating() || (evaluation_.id() > 0 && evaluation_.id() == order_id_),
             "the job evaluates, but not by its last order");
  check.That(evaluation_.id() <= order_id_, "an evaluation is newer than the last order");
  return check.status();
}

}  // namespace tethys
