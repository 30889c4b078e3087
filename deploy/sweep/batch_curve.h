// The time of a training step as a function of the batch, from the times of some batches that a sweep or a
// calibration measured. Between measured batches, the time lies on the fitted lines or, if there are none, is
// interpolated. Beyond the measured batches, the time lies on the first or the last line, and is marked as
// extrapolated. Immutable; thread-safe.
#ifndef TETHYS_DEPLOY_SWEEP_BATCH_CURVE_H_
#define TETHYS_DEPLOY_SWEEP_BATCH_CURVE_H_

#include <vector>

#include "absl/types/span.h"
#include "proto/sweep.pb.h"
#include "runtime/base/status.h"

namespace tethys {

class BatchCurve {
 public:
  // InvalidArgument: there are no times, batches do not ascend, a time is not a positive number, segments
  // overlap or do not ascend, or a segment exceeds the measured batches.
  static absl::StatusOr<BatchCurve> Create(std::vector<proto::BatchTime> times,
                                           std::vector<proto::Segment> segments = {});

  // The times of a step with batch `batch`, which must be above 0. It may be fractional, as a mean over
  // workers is. Phases and ready times are interpolated between the measured points and scaled to the step.
  // All times are positive.
  proto::BatchTime At(double batch) const;
  double Step(double batch) const;
  bool extrapolated(double batch) const;

 private:
  BatchCurve(std::vector<proto::BatchTime> times, std::vector<proto::Segment> segments)
      : times_(std::move(times)), segments_(std::move(segments)) {}
  // Index of the measured batch below `batch`. The next measured batch is above `batch`, unless `batch` lies
  // outside the measured batches.
  size_t Below(double batch) const;

  std::vector<proto::BatchTime> times_;
  std::vector<proto::Segment> segments_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_SWEEP_BATCH_CURVE_H_
