#include "runtime/chief/job_course.h"

#include "runtime/base/status.h"

namespace tethys {

JobCourse::NextStep JobCourse::Next(bool finished) const {
  if (state_.epoch_result == EpochResultStage::kTrained && validates_) return NextStep::kValidate;
  if (state_.epoch_result != EpochResultStage::kNone) return NextStep::kReportEpoch;
  if (state_.interrupted) {
    return state_.save == SaveStage::kTried ? NextStep::kStopInterrupted : NextStep::kSave;
  }
  if (state_.save == SaveStage::kDue) return NextStep::kSave;
  if (!finished) return NextStep::kTrain;
  if (!state_.tested && tests_) return NextStep::kTest;
  return state_.save == SaveStage::kTried ? NextStep::kStop : NextStep::kSave;
}

void JobCourse::Enter(Phase phase) {
  TETHYS_CHECK(!ending() || phase == Phase::kEnded);
  TETHYS_CHECK(phase >= Phase::kTrain || phase > state_.phase);
  state_.phase = phase;
  if (phase == Phase::kTrain) state_.save = SaveStage::kNotDue;
  if (phase == Phase::kSave) state_.save = SaveStage::kTried;
}

void JobCourse::SegmentEnded(const Barrier& barrier) {
  state_.epoch_result = barrier.epoch_ended ? EpochResultStage::kTrained : EpochResultStage::kNone;
  state_.save = barrier.save_due ? SaveStage::kDue : SaveStage::kNotDue;
}

}  // namespace tethys
