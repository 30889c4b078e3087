// The course of a worker within one segment (a part of an epoch that the chief orders as a unit): which
// batches it announces to its loader, which steps it makes, which orders it waits for. Pure: orders and steps
// go in, batches and messages come out. Owned by WorkerCourse.
#ifndef TETHYS_WORKERS_SEGMENT_COURSE_H_
#define TETHYS_WORKERS_SEGMENT_COURSE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/types/optional.h"
#include "proto/chief.pb.h"
#include "runtime/base/status.h"
#include "runtime/data/sharding.h"

namespace tethys {

// One worker's batch: positions in the epoch's order.
struct BatchAssignment {
  Slice positions;           // The samples of this worker; may be empty.
  int64_t global_count = 0;  // Number of samples in this update, over all workers that take part in it.
  int64_t step_begin = 0;    // The first position of the update, over all workers that take part in it.
  // The number of the step. In lock step: the global step. With leases in rounds: the clock that the chief
  // counts. With leases on demand: the number of the worker's earlier steps.
  int64_t step = 0;
};

// Invariants, with n the number of batches that were announced:
//  1. Steps are made in the order of the announcements: done() <= n.
//  2. While the segment has not ended and waits() is false, some batch is announced or can be announced.
class SegmentCourse {
 public:
  using Messages = std::vector<proto::FromTask>;
  virtual ~SegmentCourse() = default;

  // True if no step is left to make.
  virtual bool ended() const = 0;
  // takes_orders(): whether the segment takes an order now. waits(): whether no step can begin until an order
  // arrives.
  virtual bool takes_orders() const = 0;
  virtual bool waits() const = 0;

  // Takes any order except Stop. Returns false, without any effect, if the segment does not expect the order.
  // Internal: the order belongs to this segment, but its contents are impossible.
  virtual absl::StatusOr<bool> OnOrder(const proto::ToTask& order, Messages& messages) = 0;

  // The next batch, which the worker announces to its loader; nullopt: there is none, or none yet.
  absl::optional<BatchAssignment> Announce(Messages& messages);
  // The announced batch of the next step; nullopt: the segment has ended. Requires that waits() is false, and
  // that Announce was called after waits() became false.
  absl::optional<BatchAssignment> BeginStep();
  // Notes that the step is made.
  void EndStep() { ++done_; }

  // The number of steps made.
  int64_t done() const { return done_; }

 protected:
  // The next batch to announce.
  virtual absl::optional<BatchAssignment> Next(Messages& messages) = 0;
  bool any_announced() const { return !announced_.empty(); }

 private:
  std::deque<BatchAssignment> announced_;  // Batches whose steps have not begun.
  int64_t done_ = 0;
};

// For workers in lock step. Step t of the segment is the t-th slice of `global_batch` positions; this worker,
// rank `rank` of `world`, takes its part of each slice. The chief can end the segment early
// (lock_step_segment.cc).
std::unique_ptr<SegmentCourse> CreateLockStepSegment(const proto::Run& run, int64_t global_batch, int rank,
                                                     int world);

// For batches that the chief leases and the worker requests ahead. In rounds, the chief numbers the steps;
// otherwise the first step has the number `first_step`.
std::unique_ptr<SegmentCourse> CreateLeasedSegment(const proto::Run& run, bool in_rounds, int64_t first_step);

}  // namespace tethys

#endif  // TETHYS_WORKERS_SEGMENT_COURSE_H_
