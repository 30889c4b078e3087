// Kernels of batch normalisation: the kernels that write every value, and the update of the moving
// statistics. The sums are in normalisation_sums.cu.
#include <cstdint>

#include "runtime/device/cuda/elements.h"
#include "runtime/device/cuda/grid.h"
#include "runtime/device/cuda/launch.h"
#include "runtime/device/cuda/normalisation_parts.h"
#include "runtime/device/normalisation_formulas.h"

namespace tethys::cuda {
namespace {

__device__ float Activated(bool relu, float value) {
  return relu && value < 0 ? 0.0f : value;  // Keeps NaN.
}

// A thread's current group. The thread's positions only increase.
struct GroupCursor {
  // Moves to the group of `position`. Returns true if the group has changed.
  __device__ bool MoveTo(const NormalisationArguments& a, int64_t position) {
    if (position < end) return false;
    const int64_t row = position / a.positions;
    while (group < a.groups && row >= a.begins[group + 1]) ++group;
    end = (group < a.groups ? a.begins[group + 1] : a.rows) * a.positions;
    return true;
  }

  int64_t group = 0;  // The index of the group; the number of groups, if the position is after the samples.
  int64_t end = 0;    // The end of the group, in positions.
};

template <typename P>
__global__ void NormaliseKernel(NormalisationArguments a, const P* x, const float* scale, const float* offset,
                                P* y) {
  const int64_t pack = Column(), packs = a.channels / P::kSize;
  if (pack >= packs) return;
  Normalisation<P::kSize> normalisation = {};
  GroupCursor at;
  for (int64_t position = FirstRow(); position < a.rows * a.positions; position += RowStep()) {
    if (at.MoveTo(a, position) && at.group < a.groups) {
      normalisation.Read(a, at.group, pack * P::kSize, scale, offset);
    }
    P values = {};
    if (at.group < a.groups) {
      const P read = x[position * packs + pack];
      for (int i = 0; i < P::kSize; ++i) values.Set(i, Activated(a.relu, normalisation.Of(i, read[i])));
    }
    y[position * packs + pack] = values;
  }
}

template <typename P>
__global__ void InferKernel(NormalisationArguments a, const P* x, const float* mean, const float* variance,
                            const float* scale, const float* offset, P* y) {
  const int64_t pack = Column(), packs = a.channels / P::kSize;
  if (pack >= packs) return;
  Normalisation<P::kSize> normalisation = {};
  for (int i = 0; i < P::kSize; ++i) {
    const int64_t c = pack * P::kSize + i;
    normalisation.means[i] = mean[c];
    normalisation.factors[i] = scale[c] / sqrtf(variance[c] + a.epsilon);
    normalisation.offsets[i] = offset[c];
  }
  for (int64_t position = FirstRow(); position < a.rows * a.positions; position += RowStep()) {
    P values = x[position * packs + pack];
    for (int i = 0; i < P::kSize; ++i) values.Set(i, Activated(a.relu, normalisation.Of(i, values[i])));
    y[position * packs + pack] = values;
  }
}

template <typename P>
__global__ void GradientKernel(NormalisationArguments a, const P* x, const float* scale, const float* offset,
                               const P* dy, P* dx) {
  const int64_t pack = Column(), packs = a.channels / P::kSize;
  if (pack >= packs) return;
  Normalisation<P::kSize> normalisation = {};
  float mean_gradients[P::kSize] = {}, slopes[P::kSize] = {};
  GroupCursor at;
  for (int64_t position = FirstRow(); position < a.rows * a.positions; position += RowStep()) {
    if (at.MoveTo(a, position) && at.group < a.groups) {
      normalisation.Read(a, at.group, pack * P::kSize, scale, offset);
      for (int i = 0; i < P::kSize; ++i) {
        mean_gradients[i] = a.mean_gradients[at.group * a.channels + pack * P::kSize + i];
        slopes[i] = a.slopes[at.group * a.channels + pack * P::kSize + i];
      }
    }
    P result = {};
    if (at.group < a.groups) {
      const P values = x[position * packs + pack], gradients = dy[position * packs + pack];
      for (int i = 0; i < P::kSize; ++i) {
        const float gradient = normalisation.Gradient(i, a.relu, values[i], gradients[i]);
        const float centred = values[i] - normalisation.means[i];
        result.Set(i, normalisation.factors[i] * (gradient - mean_gradients[i] - centred * slopes[i]));
      }
    }
    dx[position * packs + pack] = result;
  }
}

__global__ void MovingStatisticsKernel(NormalisationArguments a, float decay, bool later_part,
                                       const float* share, const int32_t* refused, float* mean,
                                       float* variance) {
  if (refused != nullptr && *refused != 0) return;
  const double samples = static_cast<double>(a.begins[a.groups]);
  const double kept = later_part ? 1.0 : decay, added = (1.0 - decay) * *share;
  for (int64_t c = FirstIndex(); c < a.channels; c += GridSize()) {
    double batch_mean = 0, batch_variance = 0;
    for (int64_t g = 0; g < a.groups; ++g) {
      const double rows = static_cast<double>(a.begins[g + 1] - a.begins[g]);
      const double count = ValuesOf(a, g);
      const double weight = samples > 0 ? rows / samples : 0.0;
      batch_mean += weight * a.means[g * a.channels + c];
      batch_variance += weight * SampleFactor(count) * a.variances[g * a.channels + c];
    }
    mean[c] = static_cast<float>(kept * static_cast<double>(mean[c]) + added * batch_mean);
    variance[c] = static_cast<float>(kept * static_cast<double>(variance[c]) + added * batch_variance);
  }
}

MatrixGrid GridOverPacks(const NormalisationArguments& a, int64_t packs) {
  return GridOverMatrix(a.rows * a.positions, packs);
}

cudaError_t WriteGradient(cudaStream_t stream, const NormalisationArguments& a, const void* x,
                          const float* scale, const float* offset, const void* dy, void* dx) {
  return ForPacks(a.type, a.channels, {x, dy, dx}, [&](auto pack) {
    using P = decltype(pack);
    const MatrixGrid grid = GridOverPacks(a, a.channels / P::kSize);
    return Launch(GradientKernel<P>, grid.blocks, grid.threads, stream, a, static_cast<const P*>(x), scale,
                  offset, static_cast<const P*>(dy), static_cast<P*>(dx));
  });
}

}  // namespace

cudaError_t BatchNormalisationForward(cudaStream_t stream, const NormalisationArguments& arguments,
                                      const void* x, const float* weights, const float* scale,
                                      const float* offset, void* y) {
  const cudaError_t tiled = FindTileMoments(stream, arguments, x, weights);
  if (tiled != cudaSuccess) return tiled;
  const cudaError_t merged = MergeTileMoments(stream, arguments);
  if (merged != cudaSuccess) return merged;
  return NormaliseAgain(stream, arguments, x, scale, offset, y);
}

cudaError_t NormaliseByWorkers(cudaStream_t stream, const NormalisationArguments& arguments, const void* x,
                               const float* scale, const float* offset, void* y) {
  const cudaError_t merged = MergeWorkerMoments(stream, arguments);
  if (merged != cudaSuccess) return merged;
  return NormaliseAgain(stream, arguments, x, scale, offset, y);
}

cudaError_t NormaliseAgain(cudaStream_t stream, const NormalisationArguments& arguments, const void* x,
                           const float* scale, const float* offset, void* y) {
  return ForPacks(arguments.type, arguments.channels, {x, y}, [&](auto pack) {
    using P = decltype(pack);
    const MatrixGrid grid = GridOverPacks(arguments, arguments.channels / P::kSize);
    return Launch(NormaliseKernel<P>, grid.blocks, grid.threads, stream, arguments, static_cast<const P*>(x),
                  scale, offset, static_cast<P*>(y));
  });
}

cudaError_t BatchNormalisationBackward(cudaStream_t stream, const NormalisationArguments& arguments,
                                       const void* x, const float* scale, const float* offset, const void* dy,
                                       void* dx, float* dscale, float* doffset) {
  const cudaError_t added = FindTileGradients(stream, arguments, x, scale, offset, dy);
  if (added != cudaSuccess) return added;
  const cudaError_t merged = MergeTileGradients(stream, arguments, dscale, doffset);
  if (merged != cudaSuccess || dx == nullptr) return merged;
  return WriteGradient(stream, arguments, x, scale, offset, dy, dx);
}

cudaError_t GradientByWorkers(cudaStream_t stream, const NormalisationArguments& arguments, const void* x,
                              const float* scale, const float* offset, const void* dy, void* dx) {
  const cudaError_t merged = MergeWorkerGradients(stream, arguments);
  if (merged != cudaSuccess) return merged;
  return WriteGradient(stream, arguments, x, scale, offset, dy, dx);
}

cudaError_t BatchNormalisationInfer(cudaStream_t stream, const NormalisationArguments& arguments,
                                    const void* x, const float* mean, const float* variance,
                                    const float* scale, const float* offset, void* y) {
  return ForPacks(arguments.type, arguments.channels, {x, y}, [&](auto pack) {
    using P = decltype(pack);
    const MatrixGrid grid = GridOverPacks(arguments, arguments.channels / P::kSize);
    return Launch(InferKernel<P>, grid.blocks, grid.threads, stream, arguments, static_cast<const P*>(x),
                  mean, variance, scale, offset, static_cast<P*>(y));
  });
}

cudaError_t UpdateMovingStatistics(cudaStream_t stream, const NormalisationArguments& arguments, float decay,
                                   bool later_part, const float* share, const int32_t* refused, float* mean,
                                   float* variance) {
  return Launch(MovingStatisticsKernel, BlocksFor(arguments.channels), kThreads, stream, arguments, decay,
                later_part, share, refused, mean, variance);
}

}  // namespace tethys::cuda
