// Batch normalisation. Sums over a group of rows are made in two steps: one thread adds up a tile of
// positions for one channel, in blocks, then one thread merges a channel's tiles in their order. Blocks and
// tiles are merged in double precision.
#include <cmath>
#include <cstdint>

#include "runtime/device/cuda/elements.h"
#include "runtime/device/cuda/grid.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/launch.h"
#include "runtime/device/normalisation_formulas.h"

namespace tethys::cuda {
namespace {

// Samples are the leading rows with a weight above 0; `begins` are the groups' first rows, then the end.
__global__ void GroupsKernel(NormalisationArguments a, const float* weights) {
  int64_t samples = 0, end = a.rows;
  while (samples < end) {
    const int64_t middle = samples + (end - samples) / 2;
    if (weights[middle] > 0) {
      samples = middle + 1;
    } else {
      end = middle;
    }
  }
  for (int64_t g = 0; g <= a.groups; ++g) a.begins[g] = GroupBegin(samples, a.groups, g);
}

__device__ int64_t PositionsOf(const NormalisationArguments& a, int64_t group) {
  return (a.begins[group + 1] - a.begins[group]) * a.positions;
}

// The positions of a tile, counted within its group.
struct Positions {
  int64_t begin, end;
};
__device__ Positions TilePositions(const NormalisationArguments& a, int64_t group, int64_t tile) {
  const int64_t positions = PositionsOf(a, group);
  return {tile * positions / a.tiles, (tile + 1) * positions / a.tiles};
}

// A thread's tile and channel, from its index in [groups, tiles, channels].
struct Place {
  int64_t group, tile, channel;
};
__device__ Place PlaceOf(const NormalisationArguments& a, int64_t index) {
  return {index / a.channels / a.tiles, index / a.channels % a.tiles, index % a.channels};
}

__device__ int64_t TileCount(const NormalisationArguments& a) { return a.groups * a.tiles * a.channels; }

// Sums of so many positions are made in single precision.
constexpr int64_t kBlockPositions = 256;

// The mean of some values and the sum of squared deviations from it.
struct Moments {
  double count = 0, mean = 0, squares = 0;

  __device__ void Merge(double part, double part_mean, double part_squares) {
    MergeMoments(count, part, part_mean, part_squares, mean, squares);
    count += part;
  }
};

// Merges the positions [begin, end) of one channel. Two passes, so that a mean far from 0 costs no digits.
template <typename T>
__device__ void MergeBlock(const T* values, int64_t stride, int64_t begin, int64_t end,
                           Moments& moments) {
  const auto count = static_cast<double>(end - begin);
  float sum = 0, squares = 0;
  for (int64_t p = begin; p < end; ++p) sum += Widen(values[p * stride]);
  const float mean = sum / static_cast<float>(end - begin);
  for (int64_t p = begin; p < end; ++p) {
    const float deviation = Widen(values[p * stride]) - mean;
    squares += deviation * deviation;
  }
  moments.Merge(count, mean, squares);
}

template <typename T>
__global__ void TileMomentsKernel(NormalisationArguments a, const T* x) {
  for (int64_t i = FirstIndex(); i < TileCount(a); i += GridSize()) {
    const Place at = PlaceOf(a, i);
    const Positions tile = TilePositions(a, at.group, at.tile);
    const T* values = x + a.begins[at.group] * a.positions * a.channels + at.channel;
    Moments moments;
    for (int64_t begin = tile.begin; begin < tile.end; begin += kBlockPositions) {
      const int64_t end = begin + kBlockPositions < tile.end ? begin + kBlockPositions : tile.end;
      MergeBlock(values, a.channels, begin, end, moments);
    }
    a.tile_sums[i] = moments.mean;
    a.tile_products[i] = moments.squares;
  }
}

__device__ Moments MomentsOf(const NormalisationArguments& a, int64_t group, int64_t channel) {
  Moments moments;
  for (int64_t t = 0; t < a.tiles; ++t) {
    const Positions tile = TilePositions(a, group, t);
    if (tile.begin == tile.end) continue;
    const int64_t from = (group * a.tiles + t) * a.channels + channel;
    moments.Merge(static_cast<double>(tile.end - tile.begin), a.tile_sums[from], a.tile_products[from]);
  }
  return moments;
}

__device__ void Keep(const NormalisationArguments& a, int64_t i, double mean, double variance) {
  a.means[i] = static_cast<float>(mean);
  a.variances[i] = static_cast<float>(variance);
  a.inverse_deviations[i] = static_cast<float>(1 / sqrt(variance + a.epsilon));
}

__global__ void MomentsKernel(NormalisationArguments a) {
  for (int64_t i = FirstIndex(); i < a.groups * a.channels; i += GridSize()) {
    const Moments moments = MomentsOf(a, i / a.channels, i % a.channels);
    Keep(a, i, moments.mean, moments.count > 0 ? moments.squares / moments.count : 0.0);
  }
}

// The three kernels below merge the moments of all workers' batches: first the means, then the squared
// deviations from the common mean, so that single precision on the way costs no more than in the results.
// Rows are counted, not positions, so that their sum is exact.
__global__ void OwnMeansKernel(NormalisationArguments a) {
  const double rows = static_cast<double>(a.begins[1]);
  for (int64_t c = FirstIndex(); c < a.channels; c += GridSize()) {
    const Moments moments = MomentsOf(a, 0, c);
    // From here on, the channel's first tile holds what all its tiles did.
    a.tile_sums[c] = moments.mean;
    a.tile_products[c] = moments.squares;
    a.worker_moments[c] = static_cast<float>(moments.mean * rows);
    if (c == 0) a.worker_moments[a.channels] = static_cast<float>(rows);
  }
}

__global__ void OwnSquaresKernel(NormalisationArguments a) {
  const double rows = a.worker_moments[a.channels], own = static_cast<double>(PositionsOf(a, 0));
  for (int64_t c = FirstIndex(); c < a.channels; c += GridSize()) {
    const double mean = rows > 0 ? a.worker_moments[c] / rows : 0.0, difference = a.tile_sums[c] - mean;
    a.tile_sums[c] = mean;
    a.worker_moments[c] = static_cast<float>(a.tile_products[c] + own * difference * difference);
  }
}

// The number of values of a channel in a group of rows; of all workers' batches, if they are one.
__device__ double ValuesOf(const NormalisationArguments& a, int64_t group) {
  return a.worker_moments != nullptr ? static_cast<double>(a.worker_moments[a.channels]) * a.positions
                                     : static_cast<double>(PositionsOf(a, group));
}

__global__ void WorkersMomentsKernel(NormalisationArguments a) {
  const double count = ValuesOf(a, 0);
  for (int64_t c = FirstIndex(); c < a.channels; c += GridSize()) {
    Keep(a, c, a.tile_sums[c], count > 0 ? a.worker_moments[c] / count : 0.0);
  }
}

// The value before the activation. The gradient computes it again, so both use this function.
__device__ float Normalised(float x, float mean, float factor, float offset) {
  return (x - mean) * factor + offset;
}

// The row's group; `groups` if the row is behind the samples.
__device__ int64_t GroupOf(const NormalisationArguments& a, int64_t row) {
  int64_t group = 0;
  while (group < a.groups && row >= a.begins[group + 1]) ++group;
  return group;
}

template <typename T>
__global__ void NormaliseKernel(NormalisationArguments a, const T* x, const float* scale,
                                const float* offset, T* y) {
  const int64_t row_elements = a.positions * a.channels;
  for (int64_t i = FirstIndex(); i < a.rows * row_elements; i += GridSize()) {
    const int64_t group = GroupOf(a, i / row_elements), c = i % a.channels;
    if (group == a.groups) {
      y[i] = Round<T>(0);
      continue;
    }
    const int64_t at = group * a.channels + c;
    const float value = Normalised(Widen(x[i]), a.means[at], scale[c] * a.inverse_deviations[at], offset[c]);
    y[i] = Round<T>(a.relu && value < 0 ? 0.0f : value);  // Keeps NaN.
  }
}

template <typename T>
__global__ void InferKernel(NormalisationArguments a, const T* x, const float* mean, const float* variance,
                            const float* scale, const float* offset, T* y) {
  for (int64_t i = FirstIndex(); i < a.rows * a.positions * a.channels; i += GridSize()) {
    const int64_t c = i % a.channels;
    const float value = Normalised(Widen(x[i]), mean[c], scale[c] / sqrtf(variance[c] + a.epsilon), offset[c]);
    y[i] = Round<T>(a.relu && value < 0 ? 0.0f : value);
  }
}

__device__ float GradientBefore(const NormalisationArguments& a, int64_t at, int64_t c, const float* scale,
                                const float* offset, float x, float dy) {
  if (!a.relu) return dy;
  return Normalised(x, a.means[at], scale[c] * a.inverse_deviations[at], offset[c]) > 0 ? dy : 0.0f;
}

template <typename T>
__global__ void TileGradientsKernel(NormalisationArguments a, const T* x, const float* scale,
                                    const float* offset, const T* dy) {
  for (int64_t i = FirstIndex(); i < TileCount(a); i += GridSize()) {
    const Place place = PlaceOf(a, i);
    const Positions tile = TilePositions(a, place.group, place.tile);
    const int64_t first = a.begins[place.group] * a.positions * a.channels + place.channel;
    const int64_t at = place.group * a.channels + place.channel;
    double sum = 0, products = 0;
    for (int64_t begin = tile.begin; begin < tile.end; begin += kBlockPositions) {
      const int64_t end = begin + kBlockPositions < tile.end ? begin + kBlockPositions : tile.end;
      float block_sum = 0, block_products = 0;
      for (int64_t p = begin; p < end; ++p) {
        const int64_t j = first + p * a.channels;
        const float value = Widen(x[j]);
        const float gradient = GradientBefore(a, at, place.channel, scale, offset, value, Widen(dy[j]));
        block_sum += gradient;
        block_products += gradient * (value - a.means[at]);
      }
      sum += block_sum;
      products += block_products;
    }
    a.tile_sums[i] = sum;
    a.tile_products[i] = products;
  }
}

__global__ void GradientSumsKernel(NormalisationArguments a, float* dscale, float* doffset) {
  for (int64_t c = FirstIndex(); c < a.channels; c += GridSize()) {
    double scale_sum = 0, offset_sum = 0;
    for (int64_t g = 0; g < a.groups; ++g) {
      double sum = 0, products = 0;
      for (int64_t t = 0; t < a.tiles; ++t) {
        sum += a.tile_sums[(g * a.tiles + t) * a.channels + c];
        products += a.tile_products[(g * a.tiles + t) * a.channels + c];
      }
      const int64_t at = g * a.channels + c, positions = PositionsOf(a, g);
      const double count = positions > 0 ? static_cast<double>(positions) : 1.0;
      const double inverse = a.inverse_deviations[at];
      a.mean_gradients[at] = static_cast<float>(sum / count);
      a.slopes[at] = static_cast<float>(products * inverse * inverse / count);
      scale_sum += products * inverse;
      offset_sum += sum;
    }
    dscale[c] = static_cast<float>(scale_sum);
    doffset[c] = static_cast<float>(offset_sum);
  }
}

// Of this worker's samples; dscale and doffset stay what they are for this worker.
__global__ void OwnGradientsKernel(NormalisationArguments a, float* dscale, float* doffset) {
  for (int64_t c = FirstIndex(); c < a.channels; c += GridSize()) {
    double sum = 0, products = 0;
    for (int64_t t = 0; t < a.tiles; ++t) {
      sum += a.tile_sums[t * a.channels + c];
      products += a.tile_products[t * a.channels + c];
    }
    dscale[c] = static_cast<float>(products * static_cast<double>(a.inverse_deviations[c]));
    doffset[c] = a.worker_gradients[c] = static_cast<float>(sum);
    a.worker_gradients[a.channels + c] = static_cast<float>(products);
  }
}

__global__ void WorkersGradientsKernel(NormalisationArguments a) {
  const double values = ValuesOf(a, 0), count = values > 0 ? values : 1.0;
  for (int64_t c = FirstIndex(); c < a.channels; c += GridSize()) {
    const double inverse = a.inverse_deviations[c];
    a.mean_gradients[c] = static_cast<float>(a.worker_gradients[c] / count);
    a.slopes[c] = static_cast<float>(a.worker_gradients[a.channels + c] * inverse * inverse / count);
  }
}

template <typename T>
__global__ void GradientKernel(NormalisationArguments a, const T* x, const float* scale,
                               const float* offset, const T* dy, T* dx) {
  const int64_t row_elements = a.positions * a.channels;
  for (int64_t i = FirstIndex(); i < a.rows * row_elements; i += GridSize()) {
    const int64_t group = GroupOf(a, i / row_elements), c = i % a.channels;
    if (group == a.groups) {
      dx[i] = Round<T>(0);
      continue;
    }
    const int64_t at = group * a.channels + c;
    const float value = Widen(x[i]);
    const float gradient = GradientBefore(a, at, c, scale, offset, value, Widen(dy[i]));
    dx[i] = Round<T>(scale[c] * a.inverse_deviations[at] *
                     (gradient - a.mean_gradients[at] - (value - a.means[at]) * a.slopes[at]));
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

unsigned ElementBlocks(const NormalisationArguments& a) {
  return BlocksFor(a.rows * a.positions * a.channels);
}
unsigned TileBlocks(const NormalisationArguments& a) { return BlocksFor(a.groups * a.tiles * a.channels); }

cudaError_t FindTileMoments(cudaStream_t stream, const NormalisationArguments& a, const void* x,
                            const float* weights) {
  const cudaError_t grouped = Launch(GroupsKernel, 1, 1, stream, a, weights);
  if (grouped != cudaSuccess) return grouped;
  return ForType(a.type, [&](auto element) {
    using T = decltype(element);
    return Launch(TileMomentsKernel<T>, TileBlocks(a), kThreads, stream, a, static_cast<const T*>(x));
  });
}

cudaError_t FindTileGradients(cudaStream_t stream, const NormalisationArguments& a, const void* x,
                              const float* scale, const float* offset, const void* dy) {
  return ForType(a.type, [&](auto element) {
    using T = decltype(element);
    return Launch(TileGradientsKernel<T>, TileBlocks(a), kThreads, stream, a, static_cast<const T*>(x), scale,
                  offset, static_cast<const T*>(dy));
  });
}

cudaError_t WriteGradient(cudaStream_t stream, const NormalisationArguments& a, const void* x,
                          const float* scale, const float* offset, const void* dy, void* dx) {
  return ForType(a.type, [&](auto element) {
    using T = decltype(element);
    return Launch(GradientKernel<T>, ElementBlocks(a), kThreads, stream, a, static_cast<const T*>(x), scale,
                  offset, static_cast<const T*>(dy), static_cast<T*>(dx));
  });
}

}  // namespace

cudaError_t BatchNormalisationForward(cudaStream_t stream, const NormalisationArguments& arguments,
                                      const void* x, const float* weights, const float* scale,
                                      const float* offset, void* y) {
  const NormalisationArguments& a = arguments;
  const cudaError_t tiled = FindTileMoments(stream, a, x, weights);
  if (tiled != cudaSuccess) return tiled;
  const cudaError_t merged = Launch(MomentsKernel, BlocksFor(a.groups * a.channels), kThreads, stream, a);
  if (merged != cudaSuccess) return merged;
  return NormaliseAgain(stream, a, x, scale, offset, y);
}

cudaError_t OwnMeans(cudaStream_t stream, const NormalisationArguments& arguments, const void* x,
                     const float* weights) {
  const NormalisationArguments& a = arguments;
  const cudaError_t tiled = FindTileMoments(stream, a, x, weights);
  if (tiled != cudaSuccess) return tiled;
  return Launch(OwnMeansKernel, BlocksFor(a.channels), kThreads, stream, a);
}

cudaError_t OwnSquares(cudaStream_t stream, const NormalisationArguments& arguments) {
  return Launch(OwnSquaresKernel, BlocksFor(arguments.channels), kThreads, stream, arguments);
}

cudaError_t NormaliseByWorkers(cudaStream_t stream, const NormalisationArguments& arguments, const void* x,
                               const float* scale, const float* offset, void* y) {
  const cudaError_t kept =
      Launch(WorkersMomentsKernel, BlocksFor(arguments.channels), kThreads, stream, arguments);
  if (kept != cudaSuccess) return kept;
  return NormaliseAgain(stream, arguments, x, scale, offset, y);
}

cudaError_t NormaliseAgain(cudaStream_t stream, const NormalisationArguments& arguments, const void* x,
                           const float* scale, const float* offset, void* y) {
  return ForType(arguments.type, [&](auto element) {
    using T = decltype(element);
    return Launch(NormaliseKernel<T>, ElementBlocks(arguments), kThreads, stream, arguments,
                  static_cast<const T*>(x), scale, offset, static_cast<T*>(y));
  });
}

cudaError_t BatchNormalisationBackward(cudaStream_t stream, const NormalisationArguments& arguments,
                                       const void* x, const float* scale, const float* offset,
                                       const void* dy, void* dx, float* dscale, float* doffset) {
  const NormalisationArguments& a = arguments;
  const cudaError_t added = FindTileGradients(stream, a, x, scale, offset, dy);
  if (added != cudaSuccess) return added;
  const cudaError_t merged =
      Launch(GradientSumsKernel, BlocksFor(a.channels), kThreads, stream, a, dscale, doffset);
  if (merged != cudaSuccess || dx == nullptr) return merged;
  return WriteGradient(stream, a, x, scale, offset, dy, dx);
}

cudaError_t OwnGradients(cudaStream_t stream, const NormalisationArguments& arguments, const void* x,
                         const float* scale, const float* offset, const void* dy, float* dscale,
                         float* doffset) {
  const NormalisationArguments& a = arguments;
  const cudaError_t added = FindTileGradients(stream, a, x, scale, offset, dy);
  if (added != cudaSuccess) return added;
  return Launch(OwnGradientsKernel, BlocksFor(a.channels), kThreads, stream, a, dscale, doffset);
}

cudaError_t GradientByWorkers(cudaStream_t stream, const NormalisationArguments& arguments, const void* x,
                              const float* scale, const float* offset, const void* dy, void* dx) {
  const NormalisationArguments& a = arguments;
  const cudaError_t merged = Launch(WorkersGradientsKernel, BlocksFor(a.channels), kThreads, stream, a);
  if (merged != cudaSuccess) return merged;
  return WriteGradient(stream, a, x, scale, offset, dy, dx);
}

cudaError_t BatchNormalisationInfer(cudaStream_t stream, const NormalisationArguments& arguments,
                                    const void* x, const float* mean, const float* variance,
                                    const float* scale, const float* offset, void* y) {
  return ForType(arguments.type, [&](auto element) {
    using T = decltype(element);
    return Launch(InferKernel<T>, ElementBlocks(arguments), kThreads, stream, arguments,
                  static_cast<const T*>(x), mean, variance, scale, offset, static_cast<T*>(y));
  });
}

cudaError_t UpdateMovingStatistics(cudaStream_t stream, const NormalisationArguments& arguments, float decay,
                                   bool later_part, const float* share, const int32_t* refused, float* mean,
                                   float* variance) {
  return Launch(MovingStatisticsKernel, BlocksFor(arguments.channels), kThreads, stream, arguments, decay,
                later_part, share, refused, mean, variance);
}

}  // namespace tethys::cuda
