// JobController's functions for the work at a barrier, which follows a segment: saves, evaluations, and the
// rules for the best epoch and for early stopping.
#include <utility>

#include "absl/strings/str_format.h"
#include "runtime/chief/best_epoch.h"
#include "runtime/chief/early_stopping.h"
#include "runtime/chief/job_controller.h"

namespace tethys {

int64_t JobController::NextOrderId() {
  own_.set_order_id(own_.order_id() + 1);
  return own_.order_id();
}

void JobController::BeginSave(Nanoseconds now, Actions& actions) {
  course_.Enter(JobPhase::kSave);
  proto::TrainingState state = state_;
  state.set_loss_sum(epoch_sums_.loss);
  state.set_correct(epoch_sums_.correct);
  state.set_samples(epoch_sums_.samples);
  state.set_labels(epoch_sums_.labels);
  *state.add_attempt() = OwnAttempt(now);
  checkpoints_.Begin(NextOrderId(), state, statistics_.current(), roster_.Present(checkpoints_.source_role()),
                     now, actions);
}

void JobController::SaveOpened(const absl::Status& status, Nanoseconds now, Actions& actions) {
  if (course_.phase() != JobPhase::kSave) return;
  if (checkpoints_.OnOpened(status, now, actions)) return FinishSave(now, actions);
  Regroup(now, actions);
}

void JobController::OnSaveDone(TaskId id, const proto::SaveDone& done, Nanoseconds now, Actions& actions) {
  if (course_.phase() == JobPhase::kSave && checkpoints_.OnSaveDone(id, done, now, actions)) {
    FinishSave(now, actions);
  }
}

void JobController::SaveCommitted(const absl::Status& status, const std::string& directory, Nanoseconds now,
                                  Actions& actions) {
  if (course_.phase() == JobPhase::kSave && checkpoints_.OnCommitted(status, directory, now, actions)) {
    FinishSave(now, actions);
  }
}

void JobController::FinishSave(Nanoseconds now, Actions& actions) {
  if (!checkpoints_.last_status().ok() && losses_.LostChiefSince(checkpoints_.begun())) {
    course_.SaveIsDue();  // The save failed because the chief that had begun it was lost.
  } else if (!checkpoints_.last_status().ok()) {
    // The best epoch becomes again what it was at the last successful save.
    *state_.mutable_best() = checkpoints_.saved_best();
    if (state_.best().step() == 0) state_.clear_best();
  }
  Continue(now, actions);
}

void JobController::Evaluate(JobPhase phase, Nanoseconds now, Actions& actions) {
  course_.Enter(phase);
  const bool test = phase == JobPhase::kTest;
  evaluation_.Begin(NextOrderId(), test ? proto::TEST : proto::VALIDATION,
                    test ? plan_.test_samples() : plan_.validation_samples(), statistics_.current().mean,
                    roster_.Present(proto::WORKER), now, actions);
}

void JobController::OnEvaluationDone(TaskId id, const proto::EvaluationDone& done, Nanoseconds now,
                                     Actions& actions) {
  if (!course_.evaluating()) return;
  if (const absl::Status status = evaluation_.OnDone(id, done); !status.ok()) {
    return Fail(Annotate(status, roster_.Describe(id)), id, now);
  }
  Advance(now, actions);
}

void JobController::FinishEvaluation(Nanoseconds now, Actions& actions) {
  const double seconds = evaluation_.Seconds(now);
  const proto::Quality quality = evaluation_.Quality();
  if (course_.phase() == JobPhase::kTest) {
    course_.Tested();
    *own_.mutable_test() = quality;
  } else {
    course_.EpochValidated();
    *own_.mutable_validation() = quality;
    own_.set_validation_seconds(own_.validation_seconds() + seconds);
    state_.set_validation_seconds(state_.validation_seconds() + seconds);
    own_.mutable_epoch_result()->set_validated(true);
    own_.mutable_epoch_result()->set_validation_loss(quality.loss());
    if (quality.has_accuracy()) own_.mutable_epoch_result()->set_validation_accuracy(quality.accuracy());
    if (quality.has_mean_iou()) own_.mutable_epoch_result()->set_validation_mean_iou(quality.mean_iou());
    own_.mutable_epoch_result()->set_validation_seconds(seconds);
    JudgeEpoch(actions);
  }
  Continue(now, actions);
}

void JobController::JudgeEpoch(Actions& actions) {
  own_.mutable_epoch_result()->set_epoch(running_.segment().epoch);
  own_.mutable_epoch_result()->set_step(state_.step());
  const proto::Checkpoint& checkpoint = plan_.job().checkpoint();
  if (checkpoint.keep_best() && NoteIfBest(checkpoint.best_by(), own_.epoch_result(), state_))
    course_.SaveIsDue();
  // Early stopping does not judge a partial epoch; it judges the epoch once a later attempt has completed it.
  if (!plan_.job().has_early_stopping() || state_.position() > 0) return;
  WatchEpoch(plan_.job().early_stopping(), own_.epoch_result(), *state_.mutable_early_stopping());
  // If the job ends with this epoch anyway, no note is shown; state_ records the result of the rule, in case
  // the job is made longer and resumed.
  if (!planner_.StoppedEarly(state_) || planner_.ReachedItsLength(state_)) return;
  proto::ProgressEvent event;
  event.set_note(absl::StrFormat(
      "early stopping: the validation %s has not improved on %.4f in %d %s",
      plan_.job().early_stopping().monitor() == proto::VALIDATION_ACCURACY ? "accuracy" : "loss",
      state_.early_stopping().best(), state_.early_stopping().epochs_without(),
      state_.early_stopping().epochs_without() == 1 ? "epoch" : "epochs"));
  actions.push_back(Report{std::move(event)});
}

}  // namespace tethys
