#include "runtime/chief/job_course.h"

namespace tethys {
namespace {

using Saved = proto::CourseState;

// The enumerations of the message and of the class have the same order.
static_assert(static_cast<int>(JobPhase::kEnded) == Saved::ENDED);
static_assert(static_cast<int>(EpochResultStage::kValidated) == Saved::VALIDATED);
static_assert(static_cast<int>(SaveStage::kTried) == Saved::TRIED);

}  // namespace

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

void JobCourse::Enter(JobPhase phase) {
  TETHYS_CHECK(!ending() || phase == JobPhase::kEnded);
  TETHYS_CHECK(phase >= JobPhase::kTrain || phase > state_.phase);
  state_.phase = phase;
  if (phase == JobPhase::kTrain) state_.save = SaveStage::kNotDue;
  if (phase == JobPhase::kSave) state_.save = SaveStage::kTried;
}

void JobCourse::Regroup(bool in_segment, bool leaves_save) {
  Enter(JobPhase::kRegroup);
  state_.in_segment = in_segment;
  if (leaves_save) state_.save = SaveStage::kDue;
}

void JobCourse::SegmentEnded(const Barrier& barrier) {
  state_.epoch_result = barrier.epoch_ended ? EpochResultStage::kTrained : EpochResultStage::kNone;
  state_.save = barrier.save_due ? SaveStage::kDue : SaveStage::kNotDue;
}

void JobCourse::Save(proto::CourseState& state) const {
  state.set_phase(static_cast<Saved::Phase>(state_.phase));
  state.set_epoch_result(static_cast<Saved::EpochResultStage>(state_.epoch_result));
  state.set_save(static_cast<Saved::SaveStage>(state_.save));
  state.set_tested(state_.tested);
  state.set_interrupted(state_.interrupted);
  state.set_in_segment(state_.in_segment);
}

absl::Status JobCourse::Restore(const proto::CourseState& state) {
  if (!Saved::Phase_IsValid(state.phase()) || !Saved::EpochResultStage_IsValid(state.epoch_result()) ||
      !Saved::SaveStage_IsValid(state.save())) {
    return absl::InvalidArgumentError(absl::StrCat("no job can be in the stages ", state.ShortDebugString()));
  }
  state_ = {.phase = static_cast<JobPhase>(state.phase()),
            .epoch_result = static_cast<EpochResultStage>(state.epoch_result()),
            .save = static_cast<SaveStage>(state.save()),
            .tested = state.tested(),
            .interrupted = state.interrupted(),
            .in_segment = state.in_segment()};
  return absl::OkStatus();
}

}  // namespace tethys
