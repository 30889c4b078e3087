// Which samples a worker trains on next, within one segment: computed (all workers step together) or leased
// from the chief (asynchronously). Used by the training thread.
#ifndef TETHYS_WORKERS_BATCH_SEQUENCE_H_
#define TETHYS_WORKERS_BATCH_SEQUENCE_H_

#include <memory>

#include "absl/types/optional.h"
#include "proto/chief.pb.h"
#include "runtime/base/status.h"
#include "runtime/cluster/task_session.h"
#include "runtime/data/sharding.h"

namespace tethys {

// One worker's batch: positions in the epoch's order.
struct BatchAssignment {
  Slice positions;           // This worker's; may be empty.
  int64_t global_count = 0;  // Of all workers that make this update together.
  int64_t step_begin = 0;    // First position of the update, over all workers.
  int64_t clock = 0;         // Stale-synchronously: this worker's step, counted by the chief.
};

class BatchSequence {
 public:
  virtual ~BatchSequence() = default;
  // The next batch; nothing once the segment has no more. With `wait` false, nothing also when the answer is
  // not here yet. Waiting ends with the session at the latest; Aborted when the chief stops the job
  // meanwhile.
  virtual absl::StatusOr<absl::optional<BatchAssignment>> Next(bool wait) = 0;
};

// Step t of the segment is the t-th slice of global_batch positions; this worker takes its part of each.
std::unique_ptr<BatchSequence> CreateLockStepSequence(const proto::Run& run, int64_t global_batch, int rank,
                                                      int world);

// Batches that the chief leases, asked for ahead.
std::unique_ptr<BatchSequence> CreateLeasedSequence(const proto::Run& run, TaskSession& session);

}  // namespace tethys

#endif  // TETHYS_WORKERS_BATCH_SEQUENCE_H_
