// Knows the stage that a job has reached, and decides on the next stage at each barrier. Pure; owned by
// JobController, which carries out each stage. The decision depends only on `State`, a plain value.
//
//   gather -> set servers up -> set workers up -> [ train -> validate? -> save? ]* -> test? -> save -> stop
//
// If workers form a new group, any stage from training on is left for kRegroup. Then the segment, the
// evaluation or the save begins anew.
//
//   course.SegmentEnded({.epoch_ended = true, .save_due = false});
//   course.Next(finished)   -> kValidate
//   course.Enter(JobPhase::kValidate) ... course.EpochValidated()
//   course.Next(finished)   -> kReportEpoch, then kTrain
#ifndef TETHYS_RUNTIME_CHIEF_JOB_COURSE_H_
#define TETHYS_RUNTIME_CHIEF_JOB_COURSE_H_

#include "proto/chief_state.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// The phases up to kWorkerSetup precede training; kStopping and kEnded end the job.
enum class JobPhase {
  kGather,
  kServerSetup,
  kWorkerSetup,
  kTrain,
  kValidate,
  kTest,
  kSave,
  kRegroup,
  kStopping,
  kEnded
};

// The progress of determining the result of the epoch that ends at the current barrier.
enum class EpochResultStage {
  kNone,       // No epoch ends at the barrier, or the epoch's result has been reported.
  kTrained,    // The epoch has ended, and is not validated.
  kValidated,  // The result includes the validation.
};

// The progress of saving the state at the current barrier.
enum class SaveStage {
  kNotDue,
  kDue,
  kTried,  // A save has begun. Even if it fails, the same state is not saved again.
};

// Invariants:
//  1. Phases before training are entered in their order. After kStopping only kEnded is entered.
//  2. After an interrupt no segment and no test begins. The state is saved, unless a save of this state was
//  tried already. Then the job stops.
class JobCourse {
 public:
  struct State {
    JobPhase phase = JobPhase::kGather;
    EpochResultStage epoch_result = EpochResultStage::kNone;
    SaveStage save = SaveStage::kNotDue;
    bool tested = false;
    bool interrupted = false;
    bool in_segment = false;  // In kRegroup: true if the job was within a segment, not at a barrier.

    bool operator==(const State&) const = default;
  };

  // `validates`: the job validates after each epoch. `tests`: the job has a test split.
  JobCourse(bool validates, bool tests) : validates_(validates), tests_(tests) {}

  // The next stage at a barrier. kReportEpoch takes no time: call EpochReported, then Next again.
  enum class NextStep { kValidate, kReportEpoch, kSave, kTrain, kTest, kStop, kStopInterrupted };
  // The next stage. Requires that the job is at a barrier or at the start of training. `finished`: no step is
  // left to train.
  NextStep Next(bool finished) const;

  // Entering kTrain leaves the barrier; entering kSave sets SaveStage::kTried. Requires invariant 1.
  void Enter(JobPhase phase);
  // Enters kRegroup. If `leaves_save`, a save was interrupted, and is due again.
  void Regroup(bool in_segment, bool leaves_save);

  struct Barrier {
    bool epoch_ended = false;
    bool save_due = false;
  };
  void SegmentEnded(const Barrier& barrier);
  void EpochValidated() { state_.epoch_result = EpochResultStage::kValidated; }
  void EpochReported() { state_.epoch_result = EpochResultStage::kNone; }
  // Notes that a checkpoint is due because of the epoch's result.
  void SaveIsDue() { state_.save = SaveStage::kDue; }
  void Tested() { state_.tested = true; }
  void Interrupt() { state_.interrupted = true; }

  void Save(proto::CourseState& state) const;
  // InvalidArgument: no course can have this state.
  absl::Status Restore(const proto::CourseState& state);

  const State& state() const { return state_; }
  JobPhase phase() const { return state_.phase; }
  bool interrupted() const { return state_.interrupted; }
  bool training_begun() const { return state_.phase >= JobPhase::kTrain; }
  bool evaluating() const { return state_.phase == JobPhase::kValidate || state_.phase == JobPhase::kTest; }
  // True if the job trains, or if the job is in kRegroup and has left a segment that is to be continued.
  bool in_segment() const {
    return state_.phase == JobPhase::kTrain || (state_.phase == JobPhase::kRegroup && state_.in_segment);
  }
  // True from the beginning of training on, except while the job saves or ends.
  bool trains_or_evaluates() const {
    return training_begun() && !ending() && state_.phase != JobPhase::kSave;
  }
  bool ending() const { return state_.phase >= JobPhase::kStopping; }

 private:
  const bool validates_, tests_;
  State state_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_JOB_COURSE_H_
