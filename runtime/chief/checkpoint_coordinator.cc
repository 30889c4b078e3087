#include "runtime/chief/checkpoint_coordinator.h"

#include <algorithm>
#include <utility>

#include "runtime/chief/journal.h"
#include "runtime/chief/saved_values.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/data/sharding.h"

namespace tethys {
namespace {

// Arena slices that workers save start at multiples of this many elements.
constexpr int64_t kSaveGrain = 1024;

int64_t ArenaSize(const proto::JobPlan& plan) {
  if (plan.variable().empty()) return 0;
  const proto::VariableSpec& last = *plan.variable().rbegin();
  int64_t count = 1;
  for (const int64_t axis : last.shape()) count *= axis;
  return AlignUp(last.begin() + count);
}

}  // namespace

CheckpointCoordinator::CheckpointCoordinator(const proto::JobPlan& plan, const proto::TrainingState& start)
    : source_role_(plan.placement().servers() > 0 ? proto::PS : proto::WORKER),
      arena_size_(ArenaSize(plan)),
      saved_best_(start.best()) {}

void CheckpointCoordinator::Begin(int64_t id, const proto::TrainingState& state,
                                  const MovingStatistics& statistics, const std::vector<TaskId>& sources,
                                  Nanoseconds now, Actions& actions) {
  TETHYS_CHECK(state_ == State::kIdle);
  state_ = State::kOpening;
  id_ = id;
  training_state_ = state;
  sources_ = sources;
  source_error_.clear();
  begin_ = now;
  actions.push_back(OpenSave{id_, training_state_, statistics});
}

bool CheckpointCoordinator::OnOpened(const absl::Status& status, Nanoseconds now, Actions& actions) {
  if (state_ != State::kOpening) return false;
  if (!status.ok()) return End(status, "", now, actions);
  state_ = State::kWriting;
  writing_ = {sources_.begin(), sources_.end()};
  const int64_t grains = (arena_size_ + kSaveGrain - 1) / kSaveGrain;
  for (size_t i = 0; i < sources_.size(); ++i) {
    proto::ToTask order;
    proto::Save& save = *order.mutable_save();
    save.set_id(id_);
    const Slice slice =
        SplitSlice({0, grains}, static_cast<int64_t>(i), static_cast<int64_t>(sources_.size()));
    save.set_first(std::min(arena_size_, slice.begin * kSaveGrain));
    save.set_count(std::min(arena_size_, slice.end * kSaveGrain) - save.first());
    actions.push_back(SendOrder{sources_[i], std::move(order)});
  }
  return false;
}

bool CheckpointCoordinator::OnSaveDone(TaskId source, const proto::SaveDone& done, Nanoseconds now,
                                       Actions& actions) {
  if (state_ != State::kWriting || done.id() != id_ || writing_.erase(source) == 0) return false;
  if (!done.error().empty() && source_error_.empty()) {
    source_error_ = absl::StrCat(TaskName(source.role, source.index), ": ", done.error());
  }
  if (!writing_.empty()) return false;
  if (!source_error_.empty()) {
    actions.push_back(AbandonSave{});
    return End(absl::UnavailableError(source_error_), "", now, actions);
  }
  state_ = State::kCommitting;
  actions.push_back(CommitSave{});
  return false;
}

bool CheckpointCoordinator::OnCommitted(const absl::Status& status, const std::string& directory,
                                        Nanoseconds now, Actions& actions) {
  return state_ == State::kCommitting && End(status, directory, now, actions);
}

void CheckpointCoordinator::Abandon(Nanoseconds now, Actions& actions) {
  TETHYS_CHECK(state_ == State::kWriting);
  state_ = State::kIdle;
  writing_.clear();
  seconds_ += ToSeconds(now - begin_);
  actions.push_back(AbandonSave{});
}

bool CheckpointCoordinator::End(const absl::Status& status, const std::string& directory, Nanoseconds now,
                                Actions& actions) {
  state_ = State::kIdle;
  last_status_ = status;
  seconds_ += ToSeconds(now - begin_);
  proto::ProgressEvent event;
  if (status.ok()) {
    last_saved_ = now;
    saved_best_ = training_state_.best();
    ++checkpoints_written_;
    last_directory_ = directory;
    actions.push_back(WriteJournal{journal::Saved(training_state_)});
    event.set_note(absl::StrCat("saved ", directory));
  } else {
    event.set_note(absl::StrCat("warning: the checkpoint of step ", training_state_.step(),
                                " was not saved (", StatusText(status), "); ",
                                last_directory_.empty()
                                    ? "no checkpoint was saved yet"
                                    : absl::StrCat("the last good checkpoint is ", last_directory_)));
  }
  actions.push_back(Report{std::move(event)});
  return true;
}

void CheckpointCoordinator::FillSummary(proto::RunSummary& summary) const {
  summary.set_checkpoints_written(checkpoints_written_);
  summary.set_last_checkpoint(last_directory_);
  summary.mutable_timing()->set_checkpoint_seconds(seconds_);
}

void CheckpointCoordinator::Save(proto::SaveState& state) const {
  static_assert(static_cast<int>(State::kCommitting) == proto::SaveState::COMMITTING);
  state.set_stage(static_cast<proto::SaveState::Stage>(state_));
  state.set_id(id_);
  *state.mutable_training() = training_state_;
  for (const TaskId source : sources_) state.add_source(source.index);
  for (const TaskId source : writing_) state.add_writing(source.index);
  state.set_source_error(source_error_);
  state.set_begin_ns(begin_);
  state.set_last_saved_ns(last_saved_);
  Put(last_status_, *state.mutable_last_status());
  *state.mutable_saved_best() = saved_best_;
  state.set_last_directory(last_directory_);
  state.set_checkpoints_written(checkpoints_written_);
  state.set_seconds(seconds_);
}

absl::Status CheckpointCoordinator::Restore(const proto::SaveState& state, int sources) {
  StateCheck check;
  check.That(proto::SaveState::Stage_IsValid(state.stage()), "there is no stage ", state.stage());
  check.Count("id", state.id());
  check.Time("begin_ns", state.begin_ns());
  check.Time("last_saved_ns", state.last_saved_ns());
  check.StatusCode("last_status.code", state.last_status().code());
  check.Within("checkpoints_written", state.checkpoints_written(), 0, 1 << 30);
  std::vector<TaskId> all;
  std::set<TaskId> writing;
  for (const int index : state.source()) {
    check.Within("source", index, 0, sources - 1);
    all.push_back({source_role_, index});
  }
  for (const int index : state.writing()) {
    writing.insert({source_role_, index});
    check.That(std::count(state.source().begin(), state.source().end(), index) > 0, "task ", index,
               " is writing the checkpoint, but is not one of its sources");
  }
  const bool writes = state.stage() == proto::SaveState::WRITING;
  check.That(writes == !writing.empty(), writing.size(), " sources write in stage ", state.stage());
  TETHYS_RETURN_IF_ERROR(check.status());
  state_ = static_cast<State>(state.stage());
  id_ = state.id();
  training_state_ = state.training();
  sources_ = std::move(all);
  writing_ = std::move(writing);
  source_error_ = state.source_error();
  begin_ = state.begin_ns();
  last_saved_ = state.last_saved_ns();
  last_status_ = StatusOf(state.last_status());
  saved_best_ = state.saved_best();
  last_directory_ = state.last_directory();
  checkpoints_written_ = state.checkpoints_written();
  seconds_ = state.seconds();
  return absl::OkStatus();
}

}  // namespace tethys
