// Tells which samples a worker trains on next, within one segment: computed (all workers step together) or
// leased by the chief (asynchronous and stale-synchronous training). Used by the training thread.
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
  int64_t global_count = 0;  // Samples of all workers that make this update together.
  int64_t step_begin = 0;    // First position of the update, over all workers.
  int64_t clock = 0;         // Stale-synchronous: this worker's step, counted by the chief.
};

class BatchSequence {
 public:
  virtual ~BatchSequence() = default;
  // The next batch; nothing once the segment has no more. With `wait` false, nothing also while the chief's
  // answer is outstanding. Blocks for that answer, at the longest until the session ends. Aborted: the chief
  // stopped the job.
  virtual absl::StatusOr<absl::optional<BatchAssignment>> Next(bool wait) = 0;
};

// Step t of the segment is the t-th slice of global_batch positions; this worker takes its part of each
// slice.
std::unique_ptr<BatchSequence> CreateLockStepSequence(const proto::Run& run, int64_t global_batch, int rank,
                                                      int world);

// Batches that the chief leases, requested ahead.
std::unique_ptr<BatchSequence> CreateLeasedSequence(const proto::Run& run, TaskSession& session);

}  // namespace tethys

#endif  // TETHYS_WORKERS_BATCH_SEQUENCE_H_
