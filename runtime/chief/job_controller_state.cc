// Saves the state of JobController as a message and restores it. Each part writes and checks its own state.
// This file checks the controller's own values, and checks that the states of the parts fit together. If
// states did not fit together, an event could break an invariant on which the parts rely.
#include <algorithm>
#include <utility>

#include "runtime/chief/job_controller.h"
#include "runtime/chief/saved_values.h"
#include "runtime/cluster/job_plan.h"

namespace tethys {

void JobController::Save(proto::ChiefState& state) const {
  *state.mutable_own() = own_;
  if (plan_.has_scaling()) *state.mutable_scaling() = plan_.scaling();
  roster_.Save(*state.mutable_roster());
  losses_.Save(*state.mutable_losses());
  course_.Save(*state.mutable_course());
  failure_.Save(*state.mutable_failure());
  *state.mutable_training() = state_;
  running_.Save(*state.mutable_segment());
  statistics_.Save(*state.mutable_statistics());
  pause_.Save(*state.mutable_pause());
  epoch_sums_.Save(*state.mutable_epoch_sums());
  checkpoints_.Save(*state.mutable_save());
  evaluation_.Save(*state.mutable_evaluation());
  pulses_.Save(*state.mutable_pulse());
  if (servers_.active()) servers_.Save(*state.mutable_servers());
  if (!group_.active()) return;
  group_.Save(*state.mutable_group());
  held_.Save(*state.mutable_held());
}

absl::StatusOr<std::unique_ptr<JobController>> JobController::Restore(proto::JobPlan plan,
                                                                      const proto::ChiefState& state) {
  StateCheck check;
  check.That(state.own().job_hash() == plan.job_hash(), "this state belongs to another job");
  check.Time("started_ns", state.own().started_ns());
  TETHYS_RETURN_IF_ERROR(Annotate(check.status(), "the chief's state"));
  const int workers = plan.job().workers();
  auto controller =
      std::make_unique<JobController>(std::move(plan), proto::TrainingState(), state.own().restore(),
                                      StatisticsBook(workers, {}), state.own().started_ns());
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
  // Each part may rely on the parts that were restored before it.
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
  part("group", group_.Restore(state.group()));
  part("servers", servers_.Restore(state.servers()));
  part("held", held_.Restore(state.held(), workers, ServersWithShards(plan_.placement())));

  const proto::TrainingState& training = state.training();
  check.Count("training.step", training.step());
  check.Within("training.epoch", training.epoch(), 0, running_.last_epoch());
  check.Count("training.early_stopping.epochs_without", training.early_stopping().epochs_without());
  check.Within("training.position", training.position(), 0,
               std::max<int64_t>(0, planner_.epoch_positions() - 1));
  const proto::ControllerState& own = state.own();
  check.Count("first_step", own.first_step());
  check.Count("order_id", own.order_id());
  for (const Nanoseconds time : {own.segment_begin_ns(), own.first_done_ns(), own.last_progress_ns(),
                                 own.last_pulse_ns(), own.stopping_since_ns()}) {
    check.Time("a time", time);
  }
  check.StatusCode("end.code", own.end().code());
  TETHYS_RETURN_IF_ERROR(check.status());
  own_ = own;
  state_ = training;
  if (state.has_scaling()) *plan_.mutable_scaling() = state.scaling();
  return CheckStages();
}

absl::Status JobController::CheckStages() const {
  const JobPhase phase = course_.phase();
  const TrainingSegment& segment = running_.segment();
  const bool saves = checkpoints_.state() != CheckpointCoordinator::State::kIdle;
  const bool pauses = pause_.state() != PauseCoordinator::State::kIdle;
  StateCheck check;
  check.That(course_.in_segment() || course_.ending() || running_.used_count() == segment.positions.count(),
             "the job is at a barrier, but the segment has unused samples");
  check.That(!course_.in_segment() || (running_.open() && segment.epoch == state_.epoch() &&
                                       segment.positions.begin == state_.position()),
             "the job trains, but no segment begins at the last barrier");
  check.That(course_.ending() || saves == (phase == JobPhase::kSave),
             "the job saves outside the phase for saving, or is in this phase without saving");
  check.That(!pauses || (course_.interrupted() && running_.open() && !planner_.leased()),
             "a segment is paused, but no interrupt can have paused it");
  check.That(!course_.evaluating() || (evaluation_.id() > 0 && evaluation_.id() == own_.order_id()),
             "the job evaluates, but the evaluation is not the last order");
  const bool regroups = phase == JobPhase::kRegroup;
  check.That(!regroups || group_.active() || servers_.active(), "a group forms, which this job never does");
  check.That(
      course_.ending() || !group_.active() || regroups == (group_.stage() != GroupMembership::Stage::kFormed),
      "a group forms outside the phase for forming groups, or no group forms in this phase");
  check.That(course_.ending() || !servers_.active() || !regroups || !servers_.formed(),
             "the job waits for a group of servers, but none forms");
  const bool holds = group_.active() && course_.training_begun() && !course_.ending();
  check.That(!holds || (held_.next() >= state_.step() && held_.newest() <= LastStep()),
             "the records that are held concern steps outside the segment");
  check.That(evaluation_.id() <= own_.order_id(), "an evaluation is newer than the last order");
  return check.status();
}

}  // namespace tethys
