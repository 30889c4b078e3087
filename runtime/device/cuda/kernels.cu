// Kernels over arrays and matrices. Each element is written by one thread.
#include "runtime/device/cuda/elements.h"
#include "runtime/device/cuda/grid.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/launch.h"

namespace tethys::cuda {
namespace {

template <typename In, typename Out>
__global__ void ConvertKernel(int64_t count, float scale, float shift, const In* in, Out* out) {
  for (int64_t i = FirstIndex(); i < count; i += GridSize()) out[i] = Round<Out>(in[i] * scale + shift);
}

template <typename In, typename Out>
__global__ void ConvertChannelsKernel(int64_t count, ChannelScales scales, const In* in, Out* out) {
  for (int64_t i = FirstIndex(); i < count; i += GridSize()) {
    const int channel = static_cast<int>(i % scales.channels);
    out[i] = Round<Out>(in[i] * scales.scale[channel] + scales.shift[channel]);
  }
}

template <typename In, typename Out>
__global__ void ConvertFeaturesKernel(int64_t count, FeatureScales scales, const In* in, Out* out) {
  for (int64_t i = FirstIndex(); i < count; i += GridSize()) {
    const int64_t feature = i % scales.features;
    out[i] = Round<Out>(in[i] * scales.scale[feature] + scales.shift[feature]);
  }
}

// Runs with one thread.
__global__ void PauseKernel(uint64_t time, uint64_t* longest) {
  const uint64_t begin = GpuClock();
  uint64_t most = 0;
  for (uint64_t last = begin, now; last - begin < time; last = now) {
    now = GpuClock();
    if (now - last > most) most = now - last;
  }
  *longest = most;
}

// Converts between float32 and bfloat16. Both packs have the same number of elements.
template <typename In, typename Out>
__global__ void RetypeKernel(int64_t packs, const In* in, Out* out) {
  for (int64_t i = FirstIndex(); i < packs; i += GridSize()) {
    out[i] = Made<Out>([](float value) { return value; }, in[i]);
  }
}

template <typename From, typename To>
cudaError_t Retype(cudaStream_t stream, int64_t count, const From* in, To* out) {
  return ForWidth<kPackBytes / sizeof(float)>(count, {in, out}, [&](auto width) {
    constexpr int kSize = decltype(width)::value;
    using In = Pack<From, kSize>;
    using Out = Pack<To, kSize>;
    const int64_t packs = count / kSize;
    return Launch(RetypeKernel<In, Out>, BlocksFor(packs), kThreads, stream, packs,
                  reinterpret_cast<const In*>(in), reinterpret_cast<Out*>(out));
  });
}

template <typename P>
__global__ void AddBiasKernel(int64_t rows, int64_t packs, bool relu, const float* bias, P* y) {
  if (Column() >= packs) return;
  float added[P::kSize];
  for (int i = 0; i < P::kSize; ++i) added[i] = bias[Column() * P::kSize + i];
  for (int64_t row = FirstRow(); row < rows; row += RowStep()) {
    P values = y[row * packs + Column()];
    for (int i = 0; i < P::kSize; ++i) {
      const float sum = values[i] + added[i];
      values.Set(i, relu && sum < 0 ? 0.0f : sum);  // Keeps NaN: a comparison with NaN is false.
    }
    y[row * packs + Column()] = values;
  }
}

// ----------------------------------------------------------------------------------- column sums

constexpr int64_t kSumBytes = 128;      // The most bytes of a row that a block adds up: one cache line.
constexpr int64_t kRowsPerBlock = 256;  // More rows are split over several blocks.
// The most blocks over which rows are split. A second launch adds up their sums.
constexpr int64_t kMostRowBlocks = 512;

struct RowBlocks {
  int64_t count, rows;
};
RowBlocks CutRows(int64_t rows) {
  const int64_t wanted = Divide(rows, kRowsPerBlock);
  const int64_t each = Divide(rows, wanted < kMostRowBlocks ? wanted : kMostRowBlocks);
  return {Divide(rows, each), each};
}

template <int kSize>
struct PackSums {
  __device__ void Merge(const PackSums& part) {
    for (int i = 0; i < kSize; ++i) sums[i] += part.sums[i];
  }

  float sums[kSize];
};

// Block (x, y) sums the rows [y block_rows, ...) of the packs of columns [x blockDim.x, ...), and writes the
// sums to sums[y].
template <typename P>
__global__ void SumColumnsKernel(int64_t rows, int64_t packs, int64_t block_rows, const P* y, P* dy,
                                 float* sums) {
  constexpr int kChunk = 4;  // The number of rows that a thread reads before it writes one.
  const int64_t begin = static_cast<int64_t>(blockIdx.y) * block_rows;
  const int64_t end = begin + block_rows < rows ? begin + block_rows : rows;
  PackSums<P::kSize> sum = {};
  for (int64_t first = begin + threadIdx.y; Column() < packs && first < end; first += kChunk * blockDim.y) {
    P gradients[kChunk] = {}, outputs[kChunk] = {};
    for (int r = 0; r < kChunk; ++r) {
      const int64_t row = first + r * blockDim.y;
      if (row < end) gradients[r] = dy[row * packs + Column()];
      if (row < end && y != nullptr) outputs[r] = y[row * packs + Column()];
    }
    for (int r = 0; r < kChunk; ++r) {
      const int64_t row = first + r * blockDim.y;
      if (row < end && y != nullptr) {
        for (int i = 0; i < P::kSize; ++i) {
          if (!(outputs[r][i] > 0)) gradients[r].Set(i, 0);
        }
        dy[row * packs + Column()] = gradients[r];
      }
      for (int i = 0; i < P::kSize; ++i) sum.sums[i] += gradients[r][i];
    }
  }
  MergeOverRows(sum);
  if (threadIdx.y != 0 || Column() >= packs) return;
  float* const target = sums + (blockIdx.y * packs + Column()) * P::kSize;
  for (int i = 0; i < P::kSize; ++i) target[i] = sum.sums[i];
}

// Sums columns of `rows` rows, in blocks of `block_rows` rows.
template <typename P>
cudaError_t SumColumns(cudaStream_t stream, int64_t rows, int64_t columns, int64_t block_rows, const P* y,
                       P* dy, float* sums) {
  constexpr int64_t kMostPacks = kSumBytes / sizeof(P);
  const int64_t packs = columns / P::kSize, width = packs < kMostPacks ? packs : kMostPacks;
  const dim3 blocks(static_cast<unsigned>(Divide(packs, width)),
                    static_cast<unsigned>(Divide(rows, block_rows)));
  const dim3 threads(static_cast<unsigned>(width), static_cast<unsigned>(kThreads / width));
  return Launch(SumColumnsKernel<P>, blocks, threads, stream, rows, packs, block_rows, y, dy, sums);
}

template <typename In>
cudaError_t Convert(cudaStream_t stream, ElementType type, int64_t count, const ChannelScales& scales,
                    const In* in, void* out) {
  return ForType(type, [&](auto element) {
    using Out = decltype(element);
    if (scales.channels == 1) {
      return Launch(ConvertKernel<In, Out>, BlocksFor(count), kThreads, stream, count, scales.scale[0],
                    scales.shift[0], in, static_cast<Out*>(out));
    }
    return Launch(ConvertChannelsKernel<In, Out>, BlocksFor(count), kThreads, stream, count, scales, in,
                  static_cast<Out*>(out));
  });
}

template <typename In>
cudaError_t Convert(cudaStream_t stream, ElementType type, int64_t count, const FeatureScales& scales,
                    const In* in, void* out) {
  return ForType(type, [&](auto element) {
    using Out = decltype(element);
    return Launch(ConvertFeaturesKernel<In, Out>, BlocksFor(count), kThreads, stream, count, scales, in,
                  static_cast<Out*>(out));
  });
}

}  // namespace

cudaError_t CheckKernelImage() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(ConvertKernel<float, float>));
}

cudaError_t MeasurePause(cudaStream_t stream, uint64_t time, uint64_t* longest) {
  return Launch(PauseKernel, 1, 1, stream, time, longest);
}

cudaError_t ConvertBytes(cudaStream_t stream, ElementType type, int64_t count, const ChannelScales& scales,
                         const uint8_t* in, void* out) {
  return Convert(stream, type, count, scales, in, out);
}

cudaError_t ConvertFloats(cudaStream_t stream, ElementType type, int64_t count, const ChannelScales& scales,
                          const float* in, void* out) {
  return Convert(stream, type, count, scales, in, out);
}

cudaError_t ConvertBytes(cudaStream_t stream, ElementType type, int64_t count, const FeatureScales& scales,
                         const uint8_t* in, void* out) {
  return Convert(stream, type, count, scales, in, out);
}

cudaError_t ConvertFloats(cudaStream_t stream, ElementType type, int64_t count, const FeatureScales& scales,
                          const float* in, void* out) {
  return Convert(stream, type, count, scales, in, out);
}

cudaError_t ToBfloat16(cudaStream_t stream, int64_t count, const float* in, __nv_bfloat16* out) {
  return Retype(stream, count, in, out);
}

cudaError_t FromBfloat16(cudaStream_t stream, int64_t count, const __nv_bfloat16* in, float* out) {
  return Retype(stream, count, in, out);
}

cudaError_t AddBias(cudaStream_t stream, ElementType type, int64_t rows, int64_t columns, bool relu,
                    const float* bias, void* y) {
  return ForPacks(type, columns, {y}, [&](auto pack) {
    using P = decltype(pack);
    const int64_t packs = columns / P::kSize;
    const MatrixGrid grid = GridOverMatrix(rows, packs);
    return Launch(AddBiasKernel<P>, grid.blocks, grid.threads, stream, rows, packs, relu, bias,
                  static_cast<P*>(y));
  });
}

int64_t ColumnSumScratch(int64_t rows, int64_t columns) { return CutRows(rows).count * columns; }

cudaError_t MaskAndSumColumns(cudaStream_t stream, ElementType type, int64_t rows, int64_t columns,
                              const void* y, void* dy, float* sums, float* scratch) {
  const RowBlocks cut = CutRows(rows);
  float* const target = cut.count == 1 ? sums : scratch;
  const cudaError_t launched = ForPacks(type, columns, {y, dy}, [&](auto pack) {
    using P = decltype(pack);
    return SumColumns(stream, rows, columns, cut.rows, static_cast<const P*>(y), static_cast<P*>(dy), target);
  });
  if (launched != cudaSuccess || cut.count == 1) return launched;
  return ForPacks(ElementType::kFloat32, columns, {scratch}, [&](auto pack) {
    using P = decltype(pack);
    return SumColumns<P>(stream, cut.count, columns, cut.count, nullptr, reinterpret_cast<P*>(scratch), sums);
  });
}

}  // namespace tethys::cuda
