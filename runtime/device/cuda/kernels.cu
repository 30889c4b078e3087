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

// Between float32 and bfloat16. Both packs have as many elements.
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

constexpr int kSumRows = 8;               // Threads of a block along the rows; kWarp along the columns.
constexpr int64_t kRowsPerBlock = 1024;   // More rows are split over several blocks.
constexpr int64_t kMostRowBlocks = 1024;  // A second launch adds the sums of these blocks.

struct RowBlocks {
  int64_t count, rows;
};
RowBlocks CutRows(int64_t rows) {
  const int64_t wanted = Divide(rows, kRowsPerBlock);
  const int64_t each = Divide(rows, wanted < kMostRowBlocks ? wanted : kMostRowBlocks);
  return {Divide(rows, each), each};
}

// Block (x, y) adds columns [x kWarp, ...), rows [y block_rows, ...) into sums[y].
template <typename T>
__global__ void SumColumnsKernel(int64_t rows, int64_t columns, int64_t block_rows, const T* y, T* dy,
                                 float* sums) {
  __shared__ float partial[kSumRows][kWarp];
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kWarp + threadIdx.x;
  const int64_t begin = static_cast<int64_t>(blockIdx.y) * block_rows;
  const int64_t end = begin + block_rows < rows ? begin + block_rows : rows;
  float sum = 0;
  if (column < columns) {
    for (int64_t row = begin + threadIdx.y; row < end; row += kSumRows) {
      const int64_t at = row * columns + column;
      float value = Widen(dy[at]);
      if (y != nullptr && !(Widen(y[at]) > 0)) dy[at] = Round<T>(value = 0);
      sum += value;
    }
  }
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  for (int i = 1; i < kSumRows; ++i) sum += partial[i][threadIdx.x];
  sums[static_cast<int64_t>(blockIdx.y) * columns + column] = sum;
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

}  // namespace

cudaError_t CheckKernelImage() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(SumColumnsKernel<float>));
}

cudaError_t ConvertBytes(cudaStream_t stream, ElementType type, int64_t count, const ChannelScales& scales,
                         const uint8_t* in, void* out) {
  return Convert(stream, type, count, scales, in, out);
}

cudaError_t ConvertFloats(cudaStream_t stream, ElementType type, int64_t count, const ChannelScales& scales,
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
  const dim3 threads(kWarp, kSumRows);
  const auto column_blocks = static_cast<unsigned>(Divide(columns, kWarp));
  const RowBlocks cut = CutRows(rows);
  const dim3 grid(column_blocks, static_cast<unsigned>(cut.count));
  float* const target = cut.count == 1 ? sums : scratch;
  const cudaError_t launched = ForType(type, [&](auto element) {
    using T = decltype(element);
    return Launch(SumColumnsKernel<T>, grid, threads, stream, rows, columns, cut.rows,
                  static_cast<const T*>(y), static_cast<T*>(dy), target);
  });
  if (launched != cudaSuccess || cut.count == 1) return launched;
  return Launch(SumColumnsKernel<float>, column_blocks, threads, stream, cut.count, columns, cut.count,
                nullptr, scratch, sums);
}

}  // namespace tethys::cuda
