// Ends a segment of a mirrored or bulk-synchronous job early, at the same step on every worker
// (workers/lock_step_segment.cc). Pure; owned by JobController.
//
//   kIdle --Begin: Pause to all--> kPausing --every worker has named its last step: Cut--> kCut
//
// A Pause may reach one worker several short steps before another. The first worker then waits after a step.
// The second worker has begun a later step, cannot complete that step alone, and so cannot answer. Therefore
// workers that have answered are asked again, for one more step each time, until all have answered.
#ifndef TETHYS_RUNTIME_CHIEF_PAUSE_COORDINATOR_H_
#define TETHYS_RUNTIME_CHIEF_PAUSE_COORDINATOR_H_

#include <cstdint>
#include <map>

#include "proto/chief.pb.h"
#include "proto/chief_state.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/chief/chief_actions.h"
#include "runtime/chief/roster.h"
#include "runtime/chief/running_segment.h"

namespace tethys {

// A job pauses at most one segment, the one in which it is interrupted.
class PauseCoordinator {
 public:
  enum class State { kIdle, kPausing, kCut };

  // `roster` and `segment` must outlive the coordinator.
  PauseCoordinator(const Roster& roster, RunningSegment& segment) : roster_(roster), segment_(segment) {}

  // Asks the workers that have not ended the segment to pause. Requires state() == kIdle and an open segment.
  void Begin(Nanoseconds now, Actions& actions);
  // Once kPatience has passed since workers were last asked to pause, asks the workers that have answered to
  // make one more step.
  void OnTick(Nanoseconds now, Actions& actions);
  // Notes that the worker waits after `pausing.steps()` steps of the segment. InvalidArgument: the segment
  // has fewer steps. A message that does not answer a Pause of this run has no effect.
  absl::Status OnPausing(TaskId worker, const proto::Pausing& pausing, Actions& actions);
  // Notes that the worker has made all steps of the segment, perhaps before the Pause reached it.
  void OnRunDone(TaskId worker, Actions& actions);

  // Forgets the pause: the workers have left the segment.
  void Abandon();

  State state() const { return state_; }

  void Save(proto::PauseState& state) const;
  // InvalidArgument: an answer comes from no worker of this job, or names more than `most_steps` steps.
  absl::Status Restore(const proto::PauseState& state, int64_t most_steps);

  static constexpr Nanoseconds kPatience = kSecond / 2;

 private:
  struct Answer {
    int64_t steps = 0;    // The number of the segment's steps that the worker makes before it waits.
    int64_t missing = 1;  // The number of Pauses that the worker has not answered.
  };
  void Ask(TaskId worker, Actions& actions);
  void Note(TaskId worker, int64_t steps, int64_t missing, Actions& actions);

  const Roster& roster_;
  RunningSegment& segment_;

  State state_ = State::kIdle;
  Nanoseconds asked_ = 0;  // The time when workers were last asked to pause.
  std::map<TaskId, Answer> answers_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_PAUSE_COORDINATOR_H_
