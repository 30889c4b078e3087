// Cuts training into segments that end at barriers (an epoch's end, a checkpoint, the last step). Pure.
#ifndef TETHYS_RUNTIME_CHIEF_SEGMENT_PLANNER_H_
#define TETHYS_RUNTIME_CHIEF_SEGMENT_PLANNER_H_

#include <cstdint>
#include <vector>

#include "proto/checkpoint.pb.h"
#include "proto/plan.pb.h"
#include "runtime/base/status.h"
#include "runtime/chief/interval_set.h"
#include "runtime/chief/lease_book.h"
#include "runtime/data/sharding.h"
#include "runtime/shape/shape_traits.h"

namespace tethys {

struct TrainingSegment {
  int64_t epoch = 0;
  Slice positions;
  int64_t steps = 0;  // The number of updates that the segment makes.
  bool ends_epoch = false;
};

struct SegmentRest {
  // Begins at the first unused position. `steps` is the number of updates that remain.
  TrainingSegment segment;
  // If batches are leased: all unused positions, in order; otherwise empty.
  std::vector<BatchLease> batches = {};
};

class SegmentPlanner {
 public:
  explicit SegmentPlanner(const proto::JobPlan& plan);

  // The number of samples of one update.
  int64_t batch() const { return batch_; }
  // batches() is the way in which batches reach the workers. leased() is true if the chief leases the
  // batches.
  tethys::Batches batches() const { return traits_.batches; }
  bool leased() const { return traits_.leases(); }
  // The batches in which the segment is leased to workers; each global batch is split into `shares` shares
  // (Membership::shares). In a sharded job the owner of each batch is the worker to which the share of the
  // batch belongs.
  std::vector<BatchLease> Batches(const TrainingSegment& segment, int shares) const;
  // The number of updates in which `positions` positions are used.
  int64_t StepsOf(int64_t positions) const { return StepsPerEpoch(positions, batch_, false); }
  // The number of positions that an epoch uses.
  int64_t epoch_positions() const { return epoch_positions_; }
  // The number of updates of a whole job. Used only to show progress.
  int64_t total_steps() const;

  bool Finished(const proto::TrainingState& state) const;
  // True if the job has trained for the whole length that `epochs` and `max_steps` give it.
  bool ReachedItsLength(const proto::TrainingState& state) const;
  // True if the rule of early_stopping ends the job, because validation no longer improves.
  bool StoppedEarly(const proto::TrainingState& state) const;
  // Requires !Finished(state).
  TrainingSegment Next(const proto::TrainingState& state) const;
  // Returns the unused rest of a segment, for a membership with `shares` shares. The rest keeps the
  // boundaries of the segment's steps and global batches. FailedPrecondition: a position outside the segment
  // is used; or, in lock step, a step is used only in part, or is used although an earlier step is not.
  absl::StatusOr<SegmentRest> RestOf(const TrainingSegment& segment, const IntervalSet& used,
                                     int shares) const;
  // The part of the segment before position `end`.
  TrainingSegment CutAt(const TrainingSegment& segment, int64_t end) const;
  // True if a checkpoint is due at a barrier in this state. `seconds_since`: seconds since the last
  // checkpoint, or since training began if there is none.
  bool SaveDue(const proto::TrainingState& state, bool epoch_ended, double seconds_since) const;

 private:
  const proto::Job job_;
  const ShapeTraits& traits_;
  const int64_t batch_;
  const int64_t epoch_positions_;
  const bool sharded_;
  const RankSplit split_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_SEGMENT_PLANNER_H_
