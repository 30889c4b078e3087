// What the controller does when the user ends the job: it brings all workers to one state, saves that, and
// stops.
//
// In lock step: Pause, Pausing from every worker, Cut, and the segment ends early (workers/segment_pause.h).
// On leases: no further leases are given out, and workers use those they hold.
#include <algorithm>

#include "runtime/chief/job_controller.h"

namespace tethys {

void JobController::OnInterrupt(Nanoseconds now, Actions& actions) {
  if (interrupted_ || ending()) return;
  interrupted_ = true;
  if (phase_ < Phase::kTrain) {
    phase_begin_ = now;
    return Stop(absl::CancelledError("interrupted before training began"), TaskId(), actions);
  }
  // At a barrier, Continue goes no further than a save.
  if (phase_ != Phase::kTrain) return;
  if (planner_.leased()) return running_.CutToLeased();
  PauseSegment(actions);
}

void JobController::PauseSegment(Actions& actions) {
  proto::ToTask order;
  order.mutable_pause()->set_segment(running_.run());
  for (const TaskId id : roster_.Present(proto::WORKER)) {
    if (roster_.at(id).answered) {
      NotePausing(id, running_.segment().steps, actions);
    } else {
      Send(id, order, actions);
    }
  }
}

void JobController::OnPausing(TaskId id, const proto::Pausing& pausing, Nanoseconds now, Actions& actions) {
  if (!interrupted_ || phase_ != Phase::kTrain || pausing.segment() != running_.run()) return;
  if (pausing.steps() < 0 || pausing.steps() > running_.segment().steps) {
    return Fail(
        absl::InvalidArgumentError(absl::StrCat(roster_.Describe(id), ": it pauses after ", pausing.steps(),
                                                " steps of a segment of ", running_.segment().steps)),
        id, now);
  }
  NotePausing(id, pausing.steps(), actions);
}

void JobController::NotePausing(TaskId id, int64_t steps, Actions& actions) {
  if (cut_sent_) return;
  pausing_.emplace(id, steps);
  const std::vector<TaskId> workers = roster_.Present(proto::WORKER);
  if (pausing_.size() < workers.size()) return;
  cut_sent_ = true;
  int64_t cut = 0;
  for (const auto& [worker, made] : pausing_) cut = std::max(cut, made);
  running_.CutAfter(cut);
  proto::ToTask order;
  order.mutable_cut()->set_segment(running_.run());
  order.mutable_cut()->set_steps(cut);
  for (const TaskId worker : workers) {
    if (!roster_.at(worker).answered) Send(worker, order, actions);
  }
}

void JobController::EndInterrupted(Nanoseconds now, Actions& actions) {
  if (!save_tried_) return BeginSave(now, actions);
  phase_begin_ = now;
  Stop(absl::CancelledError(last_save_failed_
                                ? absl::StrCat("interrupted, and the checkpoint was not saved: ", save_error_)
                                : "interrupted"),
       TaskId(), actions);
}

}  // namespace tethys
