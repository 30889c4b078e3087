// The sums of batch normalisation, in two steps: a block of threads adds up a tile of positions for some
// channels, then a block merges the tiles of some channels. A thread adds up a few positions in single
// precision; all else is merged in double precision, in an order that the shape fixes.
#include <cmath>
#include <cstdint>

#include "runtime/device/cuda/elements.h"
#include "runtime/device/cuda/grid.h"
#include "runtime/device/cuda/launch.h"
#include "runtime/device/cuda/normalisation_parts.h"
#include "runtime/device/normalisation_formulas.h"

namespace tethys::cuda {
namespace {

// Samples are the leading rows with a weight above 0. Writes `begins`: the first row of each group, then the
// number of samples.
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

// The positions of a tile, counted within its group.
struct Positions {
  int64_t begin, end;
};
__device__ Positions TilePositions(const NormalisationArguments& a, int64_t group, int64_t tile) {
  const int64_t positions = PositionsOf(a, group);
  return {tile * positions / a.tiles, (tile + 1) * positions / a.tiles};
}

// For each of kSize channels, the mean of `count` values and the sum of their squared deviations from the
// mean.
template <int kSize>
struct Moments {
  __device__ void Merge(const Moments& part) {
    if (part.count == 0) return;
    for (int i = 0; i < kSize; ++i) {
      MergeMoments(count, part.count, part.means[i], part.squares[i], means[i], squares[i]);
    }
    count += part.count;
  }

  double count, means[kSize], squares[kSize];
};

template <int kSize>
struct GradientSums {
  __device__ void Merge(const GradientSums& part) {
    for (int i = 0; i < kSize; ++i) {
      sums[i] += part.sums[i];
      products[i] += part.products[i];
    }
  }

  double sums[kSize], products[kSize];
};

// --------------------------------------------------------------------------------- sums of a tile

// A block adds up one tile for up to kMostPacks packs of channels. A thread stays in one pack and takes every
// blockDim.y-th position.
constexpr int64_t kMostPacks = 32;

// A thread's part of its block's tile.
template <typename P>
struct TileShare {
  __device__ explicit TileShare(const NormalisationArguments& a) {
    packs = a.channels / P::kSize;
    const int64_t pack_blocks = (packs + blockDim.x - 1) / blockDim.x, part = blockIdx.x / pack_blocks;
    group = part / a.tiles;
    pack = blockIdx.x % pack_blocks * blockDim.x + threadIdx.x;
    sums = part * a.channels + channel();
    const Positions tile = TilePositions(a, group, part % a.tiles);
    const int64_t begin = tile.begin + threadIdx.y;
    first = (a.begins[group] * a.positions + begin) * packs + pack;
    count = pack < packs && begin < tile.end ? (tile.end - begin - 1) / blockDim.y + 1 : 0;
  }

  __device__ int64_t channel() const { return pack * P::kSize; }
  // The distance, in packs, between two consecutive positions of the thread.
  __device__ int64_t step() const { return blockDim.y * packs; }
  // Calls use(first pack, positions) for kChunk positions at a time, and at the end for the remaining
  // positions.
  template <int kChunk, typename Use>
  __device__ void ForEachChunk(const Use& use) const {
    for (int64_t done = 0; done < count; done += kChunk) {
      use(first + done * step(), static_cast<int>(count - done < kChunk ? count - done : kChunk));
    }
  }
  // True if the thread writes the sums of its channels.
  __device__ bool writes() const { return threadIdx.y == 0 && pack < packs; }

  int64_t packs, group, pack;
  int64_t sums;   // The index of the thread's first sum in tile_sums and tile_products.
  int64_t first;  // The thread's first pack.
  int64_t count;  // The number of the thread's positions.
};

template <typename P>
__global__ void TileMomentsKernel(NormalisationArguments a, const P* x) {
  constexpr int kChunk = 8, kSize = P::kSize;
  const TileShare<P> share(a);
  Moments<kSize> moments = {};
  share.template ForEachChunk<kChunk>([&](int64_t at, int positions) {
    P values[kChunk] = {};
    for (int p = 0; p < kChunk; ++p) {
      if (p < positions) values[p] = x[at + p * share.step()];
    }
    // Two passes, so that a mean far from 0 costs no accuracy.
    Moments<kSize> chunk = {};
    chunk.count = positions;
    for (int i = 0; i < kSize; ++i) {
      float sum = 0, squares = 0;
      for (int p = 0; p < kChunk; ++p) sum += p < positions ? values[p][i] : 0.0f;
      const float mean = sum / static_cast<float>(positions);
      for (int p = 0; p < kChunk; ++p) {
        const float deviation = p < positions ? values[p][i] - mean : 0.0f;
        squares += deviation * deviation;
      }
      chunk.means[i] = mean;
      chunk.squares[i] = squares;
    }
    moments.Merge(chunk);
  });
  MergeOverRows(moments);
  if (!share.writes()) return;
  for (int i = 0; i < kSize; ++i) {
    a.tile_sums[share.sums + i] = moments.means[i];
    a.tile_products[share.sums + i] = moments.squares[i];
  }
}

template <typename P>
__global__ void TileGradientsKernel(NormalisationArguments a, const P* x, const float* scale,
                                    const float* offset, const P* dy) {
  constexpr int kChunk = 4, kSize = P::kSize;
  const TileShare<P> share(a);
  Normalisation<kSize> normalisation = {};
  if (share.count > 0) normalisation.Read(a, share.group, share.channel(), scale, offset);
  GradientSums<kSize> sums = {};
  share.template ForEachChunk<kChunk>([&](int64_t at, int positions) {
    P values[kChunk] = {}, gradients[kChunk] = {};
    for (int p = 0; p < kChunk; ++p) {
      if (p < positions) values[p] = x[at + p * share.step()], gradients[p] = dy[at + p * share.step()];
    }
    for (int i = 0; i < kSize; ++i) {
      float sum = 0, products = 0;
      for (int p = 0; p < kChunk; ++p) {  // After the last position, the gradient is 0.
        const float gradient = normalisation.Gradient(i, a.relu, values[p][i], gradients[p][i]);
        sum += gradient;
        products += gradient * (values[p][i] - normalisation.means[i]);
      }
      sums.sums[i] += sum;
      sums.products[i] += products;
    }
  });
  MergeOverRows(sums);
  if (!share.writes()) return;
  for (int i = 0; i < kSize; ++i) {
    a.tile_sums[share.sums + i] = sums.sums[i];
    a.tile_products[share.sums + i] = sums.products[i];
  }
}

struct Blocks {
  dim3 blocks, threads;
};
Blocks BlocksOverTiles(const NormalisationArguments& a, int64_t packs) {
  const int64_t width = packs < kMostPacks ? packs : kMostPacks;
  return {.blocks = dim3(static_cast<unsigned>(Divide(packs, width) * a.groups * a.tiles)),
          .threads = dim3(static_cast<unsigned>(width), static_cast<unsigned>(kThreads / width))};
}

// ------------------------------------------------------------------------------------ merged tiles

// A block merges the tiles of kMergedChannels channels of a group; each thread merges some tiles of one
// channel.
constexpr int kMergedChannels = 8;
Blocks BlocksOverChannels(const NormalisationArguments& a, int64_t groups) {
  return {.blocks = dim3(static_cast<unsigned>(Divide(a.channels, kMergedChannels) * groups)),
          .threads = dim3(kMergedChannels, kThreads / kMergedChannels)};
}

struct MergedChannel {
  __device__ explicit MergedChannel(const NormalisationArguments& a) {
    const int64_t channel_blocks = (a.channels + kMergedChannels - 1) / kMergedChannels;
    group = blockIdx.x / channel_blocks;
    channel = blockIdx.x % channel_blocks * kMergedChannels + threadIdx.x;
    exists = channel < a.channels;
  }
  // True if the thread has the merged values.
  __device__ bool has_result() const { return exists && threadIdx.y == 0; }

  int64_t group, channel;
  bool exists;
};

__device__ Moments<1> MergedMoments(const NormalisationArguments& a, const MergedChannel& of) {
  Moments<1> moments = {};
  for (int64_t t = threadIdx.y; of.exists && t < a.tiles; t += blockDim.y) {
    const Positions tile = TilePositions(a, of.group, t);
    const int64_t from = (of.group * a.tiles + t) * a.channels + of.channel;
    moments.Merge({static_cast<double>(tile.end - tile.begin), {a.tile_sums[from]}, {a.tile_products[from]}});
  }
  MergeOverRows(moments);
  return moments;
}

__device__ GradientSums<1> MergedGradients(const NormalisationArguments& a, int64_t group,
                                           const MergedChannel& of) {
  GradientSums<1> sums = {};
  for (int64_t t = threadIdx.y; of.exists && t < a.tiles; t += blockDim.y) {
    const int64_t from = (group * a.tiles + t) * a.channels + of.channel;
    sums.Merge({{a.tile_sums[from]}, {a.tile_products[from]}});
  }
  MergeOverRows(sums);
  return sums;
}

__device__ void Keep(const NormalisationArguments& a, int64_t i, double mean, double variance) {
  a.means[i] = static_cast<float>(mean);
  a.variances[i] = static_cast<float>(variance);
  a.inverse_deviations[i] = static_cast<float>(1 / sqrt(variance + a.epsilon));
}

__global__ void MomentsKernel(NormalisationArguments a) {
  const MergedChannel of(a);
  const Moments<1> moments = MergedMoments(a, of);
  if (!of.has_result()) return;
  Keep(a, of.group * a.channels + of.channel, moments.means[0],
       moments.count > 0 ? moments.squares[0] / moments.count : 0.0);
}

// The three kernels below merge the moments of all workers' batches: first the means, then the squared
// deviations from the common mean. In this order, the single precision of the exchanged sums costs no more
// accuracy than the single precision of the results. Workers exchange their numbers of rows, not of
// positions, so that the sum of these numbers is exact.
__global__ void OwnMeansKernel(NormalisationArguments a) {
  const MergedChannel of(a);
  const Moments<1> moments = MergedMoments(a, of);
  if (!of.has_result()) return;
  const double rows = static_cast<double>(a.begins[1]);
  // From here on, the elements of the channel's first tile contain the mean and the squared deviations of all
  // tiles of the channel.
  a.tile_sums[of.channel] = moments.means[0];
  a.tile_products[of.channel] = moments.squares[0];
  a.worker_moments[of.channel] = static_cast<float>(moments.means[0] * rows);
  if (of.channel == 0) a.worker_moments[a.channels] = static_cast<float>(rows);
}

__global__ void OwnSquaresKernel(NormalisationArguments a) {
  const double rows = a.worker_moments[a.channels], own = static_cast<double>(PositionsOf(a, 0));
  for (int64_t c = FirstIndex(); c < a.channels; c += GridSize()) {
    const double mean = rows > 0 ? a.worker_moments[c] / rows : 0.0, difference = a.tile_sums[c] - mean;
    a.tile_sums[c] = mean;
    a.worker_moments[c] = static_cast<float>(a.tile_products[c] + own * difference * difference);
  }
}

__global__ void WorkersMomentsKernel(NormalisationArguments a) {
  const double count = ValuesOf(a, 0);
  for (int64_t c = FirstIndex(); c < a.channels; c += GridSize()) {
    Keep(a, c, a.tile_sums[c], count > 0 ? a.worker_moments[c] / count : 0.0);
  }
}

__global__ void GradientSumsKernel(NormalisationArguments a, float* dscale, float* doffset) {
  const MergedChannel of(a);
  double scale_sum = 0, offset_sum = 0;
  for (int64_t g = 0; g < a.groups; ++g) {
    const GradientSums<1> merged = MergedGradients(a, g, of);
    if (!of.has_result()) continue;
    const double sum = merged.sums[0], products = merged.products[0];
    const int64_t at = g * a.channels + of.channel, positions = PositionsOf(a, g);
    const double count = positions > 0 ? static_cast<double>(positions) : 1.0;
    const double inverse = a.inverse_deviations[at];
    a.mean_gradients[at] = static_cast<float>(sum / count);
    a.slopes[at] = static_cast<float>(products * inverse * inverse / count);
    scale_sum += products * inverse;
    offset_sum += sum;
  }
  if (!of.has_result()) return;
  dscale[of.channel] = static_cast<float>(scale_sum);
  doffset[of.channel] = static_cast<float>(offset_sum);
}

// dscale and doffset are sums over the samples of this worker only; they are not summed over the workers.
__global__ void OwnGradientsKernel(NormalisationArguments a, float* dscale, float* doffset) {
  const MergedChannel of(a);
  const GradientSums<1> merged = MergedGradients(a, 0, of);
  if (!of.has_result()) return;
  const int64_t c = of.channel;
  dscale[c] = static_cast<float>(merged.products[0] * static_cast<double>(a.inverse_deviations[c]));
  doffset[c] = a.worker_gradients[c] = static_cast<float>(merged.sums[0]);
  a.worker_gradients[a.channels + c] = static_cast<float>(merged.products[0]);
}

__global__ void WorkersGradientsKernel(NormalisationArguments a) {
  const double values = ValuesOf(a, 0), count = values > 0 ? values : 1.0;
  for (int64_t c = FirstIndex(); c < a.channels; c += GridSize()) {
    const double inverse = a.inverse_deviations[c];
    a.mean_gradients[c] = static_cast<float>(a.worker_gradients[c] / count);
    a.slopes[c] = static_cast<float>(a.worker_gradients[a.channels + c] * inverse * inverse / count);
  }
}

}  // namespace

cudaError_t FindTileMoments(cudaStream_t stream, const NormalisationArguments& arguments, const void* x,
                            const float* weights) {
  const NormalisationArguments& a = arguments;
  const cudaError_t grouped = Launch(GroupsKernel, 1, 1, stream, a, weights);
  if (grouped != cudaSuccess) return grouped;
  return ForPacks(a.type, a.channels, {x}, [&](auto pack) {
    using P = decltype(pack);
    const Blocks grid = BlocksOverTiles(a, a.channels / P::kSize);
    return Launch(TileMomentsKernel<P>, grid.blocks, grid.threads, stream, a, static_cast<const P*>(x));
  });
}

cudaError_t MergeTileMoments(cudaStream_t stream, const NormalisationArguments& arguments) {
  const Blocks grid = BlocksOverChannels(arguments, arguments.groups);
  return Launch(MomentsKernel, grid.blocks, grid.threads, stream, arguments);
}

cudaError_t OwnMeans(cudaStream_t stream, const NormalisationArguments& arguments, const void* x,
                     const float* weights) {
  const cudaError_t tiled = FindTileMoments(stream, arguments, x, weights);
  if (tiled != cudaSuccess) return tiled;
  const Blocks grid = BlocksOverChannels(arguments, 1);
  return Launch(OwnMeansKernel, grid.blocks, grid.threads, stream, arguments);
}

cudaError_t OwnSquares(cudaStream_t stream, const NormalisationArguments& arguments) {
  return Launch(OwnSquaresKernel, BlocksFor(arguments.channels), kThreads, stream, arguments);
}

cudaError_t MergeWorkerMoments(cudaStream_t stream, const NormalisationArguments& arguments) {
  return Launch(WorkersMomentsKernel, BlocksFor(arguments.channels), kThreads, stream, arguments);
}

cudaError_t FindTileGradients(cudaStream_t stream, const NormalisationArguments& arguments, const void* x,
                              const float* scale, const float* offset, const void* dy) {
  const NormalisationArguments& a = arguments;
  return ForPacks(a.type, a.channels, {x, dy}, [&](auto pack) {
    using P = decltype(pack);
    const Blocks grid = BlocksOverTiles(a, a.channels / P::kSize);
    return Launch(TileGradientsKernel<P>, grid.blocks, grid.threads, stream, a, static_cast<const P*>(x),
                  scale, offset, static_cast<const P*>(dy));
  });
}

cudaError_t MergeTileGradients(cudaStream_t stream, const NormalisationArguments& arguments, float* dscale,
                               float* doffset) {
  const Blocks grid = BlocksOverChannels(arguments, 1);
  return Launch(GradientSumsKernel, grid.blocks, grid.threads, stream, arguments, dscale, doffset);
}

cudaError_t OwnGradients(cudaStream_t stream, const NormalisationArguments& arguments, const void* x,
                         const float* scale, const float* offset, const void* dy, float* dscale,
                         float* doffset) {
  const cudaError_t added = FindTileGradients(stream, arguments, x, scale, offset, dy);
  if (added != cudaSuccess) return added;
  const Blocks grid = BlocksOverChannels(arguments, 1);
  return Launch(OwnGradientsKernel, grid.blocks, grid.threads, stream, arguments, dscale, doffset);
}

cudaError_t MergeWorkerGradients(cudaStream_t stream, const NormalisationArguments& arguments) {
  return Launch(WorkersGradientsKernel, BlocksFor(arguments.channels), kThreads, stream, arguments);
}

}  // namespace tethys::cuda
