// Ends a segment before its planned end, at the same step on every worker, when the user interrupts the job
// and the chief first saves a checkpoint. Used if all workers step together. The chief's side is in
// runtime/chief/pause_coordinator.h.
//
//   chief: Pause    worker, before step k of the segment: sends Pausing{k + 1}, makes step k, waits
//   chief: Cut{n}, n the largest of all answers; every worker makes its steps up to n and ends the segment
//
// A worker that has answered k + 1 makes step k before it waits. If another worker has begun step k + 1
// before its Pause came, it waits in that step for the first one and cannot answer. The chief then asks the
// first one again, and each further Pause moves its wait by one step. Used by the training thread.
#ifndef TETHYS_WORKERS_SEGMENT_PAUSE_H_
#define TETHYS_WORKERS_SEGMENT_PAUSE_H_

#include <cstdint>

#include "proto/chief.pb.h"
#include "runtime/base/status.h"
#include "runtime/cluster/task_session.h"

namespace tethys {

class SegmentPause {
 public:
  // `steps` is the number of steps in the segment. `session` outlives the object.
  SegmentPause(const proto::Run& run, int64_t steps, TaskSession& session)
      : run_(run.number()), steps_(steps), session_(session) {}

  // Called when the worker has made `done` steps of the segment. True if it must make another one. Blocks
  // only between a Pause and its Cut. Aborted: the chief ended the job. Unavailable: the session broke.
  // Internal: the order is not allowed within a segment.
  absl::StatusOr<bool> GoesOn(int64_t done);

 private:
  absl::Status Take(const proto::ToTask& order, int64_t done);

  const int64_t run_;  // The number of the chief's Run order.
  int64_t steps_;      // Steps in the segment; after a Cut, the steps before the cut.
  TaskSession& session_;
  int64_t rest_at_ = -1;  // Number of steps after which the worker waits for orders; -1: no Pause came.
  bool cut_ = false;
};

}  // namespace tethys

#endif  // TETHYS_WORKERS_SEGMENT_PAUSE_H_
