// Decides which samples a worker trains on next, within one segment (a part of an epoch that the chief orders
// as a unit). The samples are computed if all workers step together, or leased from the chief in asynchronous
// and stale-synchronous training. Used by the training thread.
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
  Slice positions;           // The samples of this worker; may be empty.
  int64_t global_count = 0;  // Samples in this update, over all its workers.
  int64_t step_begin = 0;    // First position of the update, over all workers.
  int64_t clock = 0;         // Stale-synchronous: this worker's step, counted by the chief.
};

class BatchSequence {
 public:
  virtual ~BatchSequence() = default;
  // Returns the next batch, or nothing if the segment has no more batches. If the chief's answer is
  // outstanding: with `wait`, blocks until it arrives or the session ends; without `wait`, returns nothing.
  // Aborted: the chief stopped the job.
  virtual absl::StatusOr<absl::optional<BatchAssignment>> Next(bool wait) = 0;
};

// For workers that step together. Step t of the segment is the t-th slice of `global_batch` positions; this
// worker takes its part of each slice.
std::unique_ptr<BatchSequence> CreateLockStepSequence(const proto::Run& run, int64_t global_batch, int rank,
                                                      int world);

// For batches that the chief leases; they are requested ahead.
std::unique_ptr<BatchSequence> CreateLeasedSequence(const proto::Run& run, TaskSession& session);

}  // namespace tethys

#endif  // TETHYS_WORKERS_BATCH_SEQUENCE_H_
