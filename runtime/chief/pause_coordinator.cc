#include "runtime/chief/pause_coordinator.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/chief/saved_values.h"

namespace tethys {

void PauseCoordinator::Begin(Nanoseconds now, Actions& actions) {
  TETHYS_CHECK(state_ == State::kIdle);
  state_ = State::kPausing;
  asked_ = now;
  for (const TaskId worker : roster_.Present(proto::WORKER)) {
    answers_.emplace(worker, Answer());
    if (!roster_.at(worker).run_done) Ask(worker, actions);
  }
  for (const TaskId worker : roster_.Present(proto::WORKER)) {
    if (roster_.at(worker).run_done) OnRunDone(worker, actions);
  }
}

void PauseCoordinator::Abandon() {
  state_ = State::kIdle;
  answers_.clear();
}

void PauseCoordinator::OnTick(Nanoseconds now, Actions& actions) {
  if (state_ != State::kPausing || now - asked_ < kPatience) return;
  asked_ = now;
  for (auto& [worker, answer] : answers_) {
    if (answer.missing > 0 || roster_.at(worker).run_done) continue;
    ++answer.missing;
    Ask(worker, actions);
  }
}

void PauseCoordinator::Ask(TaskId worker, Actions& actions) {
  proto::ToTask order;
  order.mutable_pause()->set_run(segment_.run());
  actions.push_back(SendOrder{worker, std::move(order)});
}

absl::Status PauseCoordinator::OnPausing(TaskId worker, const proto::Pausing& pausing, Actions& actions) {
  if (state_ == State::kIdle || pausing.run() != segment_.run()) return absl::OkStatus();
  const int64_t steps = segment_.segment().steps - segment_.made();
  if (pausing.steps() < 0 || pausing.steps() > steps) {
    return absl::InvalidArgumentError(absl::StrCat("this worker pauses after ", pausing.steps(),
                                                   " steps, but the segment has only ", steps));
  }
  const auto answer = answers_.find(worker);
  // Ignores an answer for which there was no request.
  if (answer == answers_.end() || answer->second.missing == 0) return absl::OkStatus();
  Note(worker, pausing.steps(), answer->second.missing - 1, actions);
  return absl::OkStatus();
}

void PauseCoordinator::OnRunDone(TaskId worker, Actions& actions) {
  Note(worker, segment_.segment().steps - segment_.made(), 0, actions);
}

void PauseCoordinator::Note(TaskId worker, int64_t steps, int64_t missing, Actions& actions) {
  if (state_ != State::kPausing) return;
  answers_[worker] = {.steps = steps, .missing = missing};
  int64_t cut = 0;
  for (const auto& [paused, answer] : answers_) {
    if (answer.missing > 0) return;
    cut = std::max(cut, answer.steps);
  }
  state_ = State::kCut;
  segment_.CutAfter(segment_.made() + cut);
  proto::ToTask order;
  order.mutable_cut()->set_run(segment_.run());
  order.mutable_cut()->set_steps(cut);
  for (const TaskId paused : roster_.Present(proto::WORKER)) {
    if (!roster_.at(paused).run_done) actions.push_back(SendOrder{paused, order});
  }
}

static_assert(static_cast<int>(PauseCoordinator::State::kCut) == proto::PauseState::CUT);

void PauseCoordinator::Save(proto::PauseState& state) const {
  state.set_stage(static_cast<proto::PauseState::Stage>(state_));
  state.set_asked_ns(asked_);
  for (const auto& [worker, answer] : answers_) {
    proto::PauseState::Answer& saved = *state.add_answer();
    saved.set_worker(worker.index);
    saved.set_steps(answer.steps);
    saved.set_missing(answer.missing);
  }
}

absl::Status PauseCoordinator::Restore(const proto::PauseState& state, int64_t most_steps) {
  StateCheck check;
  check.That(proto::PauseState::Stage_IsValid(state.stage()), "there is no stage ", state.stage());
  check.Time("asked_ns", state.asked_ns());
  std::map<TaskId, Answer> answers;
  for (const proto::PauseState::Answer& saved : state.answer()) {
    const TaskId worker{proto::WORKER, saved.worker()};
    check.That(roster_.Has(worker), "there is no worker ", saved.worker());
    check.Within("steps", saved.steps(), 0, most_steps);
    check.Count("missing", saved.missing());
    answers[worker] = {.steps = saved.steps(), .missing = saved.missing()};
  }
  TETHYS_RETURN_IF_ERROR(check.status());
  state_ = static_cast<State>(state.stage());
  asked_ = state.asked_ns();
  answers_ = std::move(answers);
  return absl::OkStatus();
}

}  // namespace tethys
