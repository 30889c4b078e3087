// What a job does between segments: saving and evaluating.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "runtime/chief/best_epoch.h"
#include "runtime/chief/early_stopping.h"
#include "runtime/chief/job_controller.h"
#include "runtime/chief/journal.h"
#include "runtime/cluster/job_plan.h"

namespace tethys {
namespace {

// Arena slices that workers save start at multiples of this many elements.
constexpr int64_t kSaveGrain = 1024;

// Who holds what is saved.
proto::Role SaveSources(const proto::JobPlan& plan) {
  return plan.placement().servers() > 0 ? proto::PS : proto::WORKER;
}

// Elements, padding included.
int64_t ArenaSize(const proto::JobPlan& plan) {
  if (plan.variable().empty()) return 0;
  const proto::VariableSpec& last = *plan.variable().rbegin();
  int64_t count = 1;
  for (const int64_t axis : last.shape()) count *= axis;
  return AlignUp(last.begin() + count);
}

int64_t SamplesOf(const proto::JobPlan& plan, proto::Split split) {
  return split == proto::TEST ? plan.test_samples() : plan.validation_samples();
}

}  // namespace

// ---------------------------------------------------------------------------------------------- saving

void JobController::BeginSave(Nanoseconds now, Actions& actions) {
  phase_ = Phase::kSave;
  save_pending_ = false;
  save_tried_ = true;
  final_saved_ = planner_.Finished(state_);
  phase_begin_ = now;
  save_error_.clear();
  proto::TrainingState state = state_;
  state.set_loss_sum(epoch_sums_.loss);
  state.set_correct(epoch_sums_.correct);
  state.set_samples(epoch_sums_.samples);
  *state.mutable_attempt() = earlier_attempts_;
  *state.add_attempt() = OwnAttempt(now);
  actions.push_back(OpenSave{++order_id_, std::move(state)});
}

void JobController::SaveOpened(const absl::Status& status, Nanoseconds now, Actions& actions) {
  if (phase_ != Phase::kSave) return;
  if (!status.ok()) return EndSave(status, "", now, actions);
  saving_ = true;
  roster_.ExpectAnswers();
  const int64_t arena = ArenaSize(plan_);
  const std::vector<TaskId> sources = roster_.Present(SaveSources(plan_));
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
  // A broken peer may answer unasked, twice, or after the save has been committed.
  const bool expected = phase_ == Phase::kSave && saving_ && done.id() == order_id_ &&
                        id.role == SaveSources(plan_) && !roster_.at(id).answered;
  if (!expected) return;
  if (!done.error().empty() && save_error_.empty()) {
    save_error_ = absl::StrCat(TaskName(id.role, id.index), ": ", done.error());
  }
  roster_.at(id).answered = true;
  if (!roster_.All(SaveSources(plan_), &TaskState::answered)) return;
  saving_ = false;
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
    last_save_ = now;
    saved_best_ = state_.best();
    summary_.set_checkpoints_written(summary_.checkpoints_written() + 1);
    summary_.set_last_checkpoint(directory);
    actions.push_back(WriteJournal{journal::Saved(state_)});
    event.set_note(absl::StrCat("saved ", directory));
  } else {
    save_error_ = StatusText(status);
    // Only what was saved can be kept.
    if (state_.best().step() == state_.step()) *state_.mutable_best() = saved_best_;
    if (state_.best().step() == 0) state_.clear_best();
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
  evaluation_asked_.clear();
  phase_begin_ = now;
  roster_.ExpectAnswers();
  ++order_id_;
  const int64_t samples = SamplesOf(plan_, split_);
  const std::vector<TaskId> workers = roster_.Present(proto::WORKER);
  for (size_t i = 0; i < workers.size(); ++i) {
    const Slice slice = EvaluationSlice(samples, static_cast<int64_t>(i), workers.size());
    proto::ToTask order;
    proto::Evaluate& evaluate = *order.mutable_evaluate();
    evaluate.set_id(order_id_);
    evaluate.set_split(split);
    evaluate.set_begin(slice.begin);
    evaluate.set_end(slice.end);
    evaluation_asked_[workers[i]] = slice.count();
    Send(workers[i], std::move(order), actions);
  }
}

void JobController::OnEvaluationDone(TaskId id, const proto::EvaluationDone& done, Nanoseconds now,
                                     Actions& actions) {
  if (phase_ != Phase::kEvaluate || done.id() != order_id_ || roster_.at(id).answered) return;
  const auto asked = evaluation_asked_.find(id);
  const int64_t samples = asked == evaluation_asked_.end() ? 0 : asked->second;
  if (id.role != proto::WORKER || done.samples() != samples || done.correct() < 0 ||
      done.correct() > done.samples()) {
    return Fail(absl::InvalidArgumentError(absl::StrCat(roster_.Describe(id), ": it evaluated on ", samples,
                                                        " samples and says that of ", done.samples(),
                                                        " it has ", done.correct(), " right")),
                id, now);
  }
  evaluation_.Add(done);
  roster_.at(id).answered = true;
  Advance(now, actions);
}

void JobController::FinishEvaluation(Nanoseconds now, Actions& actions) {
  // A worker was lost that owed its part, or none was there to be asked.
  if (evaluation_.samples != SamplesOf(plan_, split_)) return BeginEvaluation(split_, now, actions);
  const double seconds = ToSeconds(now - phase_begin_);
  const proto::Quality quality = evaluation_.Quality();
  if (split_ == proto::TEST) {
    tested_ = true;
    *summary_.mutable_test() = quality;
  } else {
    *summary_.mutable_validation() = quality;
    validation_seconds_here_ += seconds;
    state_.set_validation_seconds(state_.validation_seconds() + seconds);
    epoch_result_.set_validated(true);
    epoch_result_.set_validation_loss(quality.loss());
    epoch_result_.set_validation_accuracy(quality.accuracy());
    epoch_result_.set_validation_seconds(seconds);
    JudgeEpoch(actions);
  }
  Continue(now, actions);
}

// What the epoch's validation means for the course of the job.
void JobController::JudgeEpoch(Actions& actions) {
  epoch_result_.set_epoch(running_.segment().epoch);
  epoch_result_.set_step(state_.step());
  const proto::Checkpoint& checkpoint = plan_.job().checkpoint();
  if (checkpoint.keep_best() && NoteIfBest(checkpoint.best_by(), epoch_result_, state_)) save_pending_ = true;
  if (!plan_.job().has_early_stopping() || planner_.Finished(state_)) return;
  WatchEpoch(plan_.job().early_stopping(), epoch_result_, *state_.mutable_early_stopping());
  if (!planner_.StoppedEarly(state_)) return;
  proto::ProgressEvent event;
  event.set_note(absl::StrFormat(
      "early stopping: the validation %s has not improved on %.4f in %d %s",
      plan_.job().early_stopping().monitor() == proto::VALIDATION_ACCURACY ? "accuracy" : "loss",
      state_.early_stopping().best(), state_.early_stopping().epochs_without(),
      state_.early_stopping().epochs_without() == 1 ? "epoch" : "epochs"));
  actions.push_back(Report{std::move(event)});
}

}  // namespace tethys
