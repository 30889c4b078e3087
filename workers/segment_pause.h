// Ends a segment of a job in lock step before its planned end, at the same step on every worker, because the
// user interrupts the job and a checkpoint is to be saved first. The chief's side is in
// runtime/chief/pause_coordinator.h.
//
//   chief: Pause    worker, before step k of the segment: sends Pausing{k + 1}, makes step k, waits
//   chief: Cut{n}, n the largest of all answers; every worker makes its steps up to n and ends the segment
//
// A worker that has answered k + 1 makes step k before it waits, so no worker that has begun step k waits for
// that worker; answers differ by one at most. Used by the training thread.
#ifndef TETHYS_WORKERS_SEGMENT_PAUSE_H_
#define TETHYS_WORKERS_SEGMENT_PAUSE_H_

#include <cstdint>

#include "proto/chief.pb.h"
#include "runtime/base/status.h"
#include "runtime/cluster/task_session.h"

namespace tethys {

class SegmentPause {
 public:
  // A segment of `steps` steps. `session` outlives this.
  SegmentPause(const proto::Run& run, int64_t steps, TaskSession& session)
      : run_(run.number()), steps_(steps), session_(session) {}

  // True if the step after `done` steps of the segment is to be made. Blocks only between a Pause and its
  // Cut. Aborted: the chief ended the job. Unavailable: the session broke. Internal: the order is not allowed
  // within a segment.
  absl::StatusOr<bool> GoesOn(int64_t done);

 private:
  absl::Status Take(const proto::ToTask& order, int64_t done);

  const int64_t run_;  // Its number.
  int64_t steps_;      // Steps of the segment; once it is cut, those before the cut.
  TaskSession& session_;
  int64_t rest_at_ = -1;  // Steps after which it waits for the cut; -1: no Pause came.
  bool cut_ = false;
};

}  // namespace tethys

#endif  // TETHYS_WORKERS_SEGMENT_PAUSE_H_
