// Batch normalisation (Ioffe and Szegedy, "Batch normalization", ICML 2015). Contract: device.h.
#ifndef TETHYS_RUNTIME_DEVICE_NORMALISATION_PRIMITIVE_H_
#define TETHYS_RUNTIME_DEVICE_NORMALISATION_PRIMITIVE_H_

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/device/axis.h"
#include "runtime/device/stream_communicator.h"

namespace tethys {

// y = activation((x - mean) / sqrt(variance + epsilon) * scale + offset), channel by channel.
//   x, y [rows, positions, channels]; mean, variance, scale, offset [channels]
//
// The samples of a batch are its leading rows with a weight above 0. They are split into `groups` parts, as
// even as possible, the larger parts first. Each part is normalised by its own mean and variance, as if each
// of `groups` workers had one part. Rows after the samples take no part: y and dx are 0 there.
//
// A primitive with a StreamReducer (`sums`), which must have one group, normalises by the samples of all
// workers' batches together.
struct BatchNormalisationShape {
  using Primitive = class BatchNormalisationPrimitive;
  int64_t rows = 0;
  int64_t positions = 1;  // Height times width of an image; 1 for vectors.
  int64_t channels = 0;
  int64_t groups = 1;
  float epsilon = 1e-5f;
  float decay = 0.9f;  // In each update of a moving statistic, the factor of its old value.
  // True: the batch is not the first micro-batch of its step. The update for the first micro-batch has
  // already multiplied the moving statistics by `decay`.
  bool later_part = false;
  bool relu = false;
  // Must outlive the primitive. Null: the primitive normalises by the batch of this worker alone.
  StreamReducer* sums = nullptr;
  int64_t elements() const { return rows * positions * channels; }
};

// InvalidArgument: an axis below 1 or above 2^31, more than 2^47 elements, more groups than rows, several
// groups together with `sums`, an epsilon that is not above 0, or a decay outside (0, 1).
inline absl::Status CheckShape(const BatchNormalisationShape& shape) {
  constexpr int64_t kMostElements = int64_t{1} << 47;
  for (const int64_t axis : {shape.rows, shape.positions, shape.channels, shape.groups}) {
    if (axis >= 1 && axis <= kMostAxis) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("batch normalisation has an axis of ", axis, "; it must be in [1, ", kMostAxis, "]"));
  }
  if (shape.positions > kMostElements / shape.rows ||
      shape.channels > kMostElements / (shape.rows * shape.positions)) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch normalisation has too many elements; it may have at most ", kMostElements));
  }
  if (shape.groups > shape.rows) {
    return absl::InvalidArgumentError(absl::StrCat("batch normalisation cannot split ", shape.rows,
                                                   " rows into ", shape.groups,
                                                   " groups; each group needs at least one row"));
  }
  if (shape.sums != nullptr && shape.groups != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch normalisation over all workers has ", shape.groups, " groups; it must have one"));
  }
  if (!(shape.epsilon > 0) || !(shape.decay > 0) || !(shape.decay < 1)) {
    return absl::InvalidArgumentError(absl::StrCat("batch normalisation has epsilon ", shape.epsilon,
                                                   " and decay ", shape.decay,
                                                   "; epsilon must be above 0, decay in (0, 1)"));
  }
  return absl::OkStatus();
}

// The variables of one layer, in device memory.
struct ScaleAndOffset {
  const float* scale = nullptr;
  const float* offset = nullptr;
};

// Arrays of one call must not overlap, unless the comment of the function says that they may be the same.
class BatchNormalisationPrimitive {
 public:
  virtual ~BatchNormalisationPrimitive() = default;

  // Normalises by the statistics of the batch, which the primitive keeps until the next Forward. The variance
  // is the population variance (divided by the number of values). `weights` is [rows]. Forward, and Backward
  // with dx, return the errors of StreamReducer::AllReduce.
  virtual absl::Status Forward(Stream& stream, const void* x, const float* weights,
                               const ScaleAndOffset& variables, void* y) = 0;
  // Computes y of the last Forward again, from its input x.
  virtual absl::Status Repeat(Stream& stream, const void* x, const ScaleAndOffset& variables, void* y) = 0;
  // Computes the derivatives of the last Forward, from the input x of that Forward. With relu, gradients of
  // outputs that are not positive are 0. dscale and doffset are overwritten, and so is dx, unless it is null.
  // `dx` may be `dy`. dscale and doffset are sums over the samples of this worker.
  virtual absl::Status Backward(Stream& stream, const void* x, const ScaleAndOffset& variables,
                                const void* dy, void* dx, float* dscale, float* doffset) = 0;

  // Normalises all rows by the given mean and variance, as in an evaluation. `y` may be `x`.
  virtual absl::Status Infer(Stream& stream, const void* x, const float* mean, const float* variance,
                             const ScaleAndOffset& variables, void* y) = 0;

  // Brings the moving statistics up to date with the batch of the last Forward:
  //   moving = decay * moving + (1 - decay) * share * statistic of the batch
  // With later_part, `moving` on the right side is not multiplied by decay. The batch's statistics are the
  // means of its groups' statistics, weighted by the groups' numbers of samples. In these means, the variance
  // of a group of n values is the sum of squared deviations divided by n - 1 (the estimate from a sample), or
  // by 1 if n is 1. `share` and `refused` are in device memory. If *refused is not 0, the moving statistics
  // do not change. If `refused` is null, they always change.
  virtual absl::Status UpdateMovingStatistics(Stream& stream, const float* share, const int32_t* refused,
                                              float* mean, float* variance) = 0;

  // Device memory in bytes that the primitive holds.
  virtual int64_t workspace_bytes() const = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_NORMALISATION_PRIMITIVE_H_
