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

__global__ void ToBfloat16Kernel(int64_t count, const float* in, __nv_bfloat16* out) {
  for (int64_t i = FirstIndex(); i < count; i += GridSize()) out[i] = __float2bfloat16_rn(in[i]);
}

__global__ void FromBfloat16Kernel(int64_t count, const __nv_bfloat16* in, float* out) {
  for (int64_t i = FirstIndex(); i < count; i += GridSize()) out[i] = __bfloat162float(in[i]);
}

template <typename T>
__global__ void AddBiasKernel(int64_t count, int64_t columns, bool relu, const float* bias, T* y) {
  for (int64_t i = FirstIndex(); i < count; i += GridSize()) {
    const float sum = Widen(y[i]) + bias[i % columns];
    y[i] = Round<T>(relu && sum < 0 ? 0.0f : sum);  // Keeps NaN: a comparison with NaN is false.
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
  return Launch(ToBfloat16Kernel, BlocksFor(count), kThreads, stream, count, in, out);
}

cudaError_t FromBfloat16(cudaStream_t stream, int64_t count, const __nv_bfloat16* in, float* out) {
  return Launch(FromBfloat16Kernel, BlocksFor(count), kThreads, stream, count, in, out);
}

cudaError_t AddBias(cudaStream_t stream, ElementType type, int64_t rows, int64_t columns, bool relu,
                    const float* bias, void* y) {
  const int64_t count = rows * columns;
  return ForType(type, [&](auto element) {
    using T = decltype(element);
    return Launch(AddBiasKernel<T>, BlocksFor(count), kThreads, stream, count, columns, relu, bias,
                  static_cast<T*>(y));
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
