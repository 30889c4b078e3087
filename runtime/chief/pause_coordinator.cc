#include "runtime/chief/pause_coordinator.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace tethys {

void PauseCoordinator::Begin(Actions& actions) {
  TETHYS_CHECK(state_ == State::kIdle);
  state_ = State::kPausing;
  proto::ToTask order;
  order.mutable_pause()->set_run(segment_.run());
  for (const TaskId worker : roster_.Present(proto::WORKER)) {
    if (roster_.at(worker).run_done) {
      Note(worker, segment_.segment().steps, actions);
    } else {
      actions.push_back(SendOrder{worker, order});
    }
  }
}

absl::Status PauseCoordinator::OnPausing(TaskId worker, const proto::Pausing& pausing, Actions& actions) {
  if (state_ == State::kIdle || pausing.run() != segment_.run()) return absl::OkStatus();
  const int64_t steps = segment_.segment().steps;
  if (pausing.steps() < 0 || pausing.steps() > steps) {
    return absl::InvalidArgumentError(
        absl::StrCat("it pauses after ", pausing.steps(), " steps of a segment of ", steps));
  }
  Note(worker, pausing.steps(), actions);
  return absl::OkStatus();
}

void PauseCoordinator::OnRunDone(TaskId worker, Actions& actions) {
  Note(worker, segment_.segment().steps, actions);
}

void PauseCoordinator::Note(TaskId worker, int64_t steps, Actions& actions) {
  if (state_ != State::kPausing) return;
  steps_.emplace(worker, steps);
  const std::vector<TaskId> workers = roster_.Present(proto::WORKER);
  if (steps_.size() < workers.size()) return;
  state_ = State::kCut;
  int64_t cut = 0;
  for (const auto& [paused, made] : steps_) cut = std::max(cut, made);
  segment_.CutAfter(cut);
  proto::ToTask order;
  order.mutable_cut()->set_run(segment_.run());
  order.mutable_cut()->set_steps(cut);
  for (const TaskId paused : workers) {
    if (!roster_.at(paused).run_done) actions.push_back(SendOrder{paused, order});
  }
}

}  // namespace tethys
