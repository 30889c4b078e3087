// Ends a segment of a mirrored or bulk-synchronous job early, at the same step on every worker
// (workers/segment_pause.h). Pure; owned by JobController.
//
//   kIdle --Begin: Pause to all--> kPausing --every worker has named the step it waits after: Cut--> kCut
#ifndef TETHYS_RUNTIME_CHIEF_PAUSE_COORDINATOR_H_
#define TETHYS_RUNTIME_CHIEF_PAUSE_COORDINATOR_H_

#include <cstdint>
#include <map>

#include "proto/chief.pb.h"
#include "runtime/base/status.h"
#include "runtime/chief/chief_actions.h"
#include "runtime/chief/roster.h"
#include "runtime/chief/running_segment.h"

namespace tethys {

// A job pauses at most one segment, the one in which it is interrupted.
class PauseCoordinator {
 public:
  enum class State { kIdle, kPausing, kCut };

  // `roster` and `segment` outlive the coordinator.
  PauseCoordinator(const Roster& roster, RunningSegment& segment) : roster_(roster), segment_(segment) {}

  // Asks the workers that have not ended the segment to pause. Requires state() == kIdle and an open segment.
  void Begin(Actions& actions);
  // The worker waits after `pausing.steps()` steps of the segment. InvalidArgument: the segment is shorter. A
  // message that does not answer a Pause of this run has no effect.
  absl::Status OnPausing(TaskId worker, const proto::Pausing& pausing, Actions& actions);
  // The worker has made all steps of the segment, perhaps before the Pause reached it.
  void OnRunDone(TaskId worker, Actions& actions);

  State state() const { return state_; }

 private:
  void Note(TaskId worker, int64_t steps, Actions& actions);

  const Roster& roster_;
  RunningSegment& segment_;

  State state_ = State::kIdle;
  std::map<TaskId, int64_t> steps_;  // Steps of the segment that each worker makes before it waits.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_PAUSE_COORDINATOR_H_
