// Kernels over arrays and matrices. Each element is written by one thread.
#include "runtime/device/cuda/grid.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/launch.h"

namespace tethys::cuda {
namespace {

__global__ void ConvertBytesKernel(int64_t count, float scale, float shift, const uint8_t* in, float* out) {
  for (int64_t i = FirstIndex(); i < count; i += GridSize()) out[i] = in[i] * scale + shift;
}

__global__ void ToBfloat16Kernel(int64_t count, const float* in, __nv_bfloat16* out) {
  for (int64_t i = FirstIndex(); i < count; i += GridSize()) out[i] = __float2bfloat16_rn(in[i]);
}

__global__ void FromBfloat16Kernel(int64_t count, const __nv_bfloat16* in, float* out) {
  for (int64_t i = FirstIndex(); i < count; i += GridSize()) out[i] = __bfloat162float(in[i]);
}

__global__ void AddBiasKernel(int64_t count, int64_t columns, bool relu, const float* bias, float* y) {
  for (int64_t i = FirstIndex(); i < count; i += GridSize()) {
    const float sum = y[i] + bias[i % columns];
    y[i] = relu && sum < 0 ? 0.0f : sum;  // Keeps NaN: a comparison with NaN is false.
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
__global__ void SumColumnsKernel(int64_t rows, int64_t columns, int64_t block_rows, const float* y, float* dy,
                                 float* sums) {
  __shared__ float partial[kSumRows][kWarp];
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kWarp + threadIdx.x;
  const int64_t begin = static_cast<int64_t>(blockIdx.y) * block_rows;
  const int64_t end = begin + block_rows < rows ? begin + block_rows : rows;
  float sum = 0;
  if (column < columns) {
    for (int64_t row = begin + threadIdx.y; row < end; row += kSumRows) {
      const int64_t at = row * columns + column;
      float value = dy[at];
      if (y != nullptr && !(y[at] > 0)) dy[at] = value = 0;
      sum += value;
    }
  }
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  for (int i = 1; i < kSumRows; ++i) sum += partial[i][threadIdx.x];
  sums[static_cast<int64_t>(blockIdx.y) * columns + column] = sum;
}

// ------------------------------------------------------------------------------------------ loss

template <typename T, typename Combine>
__device__ T AcrossWarp(T value, Combine combine) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, offset));
  }
  return value;
}

__device__ float Larger(float a, float b) { return fmaxf(a, b); }
__device__ float Sum(float a, float b) { return a + b; }
__device__ int64_t Smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// One warp per row.
__global__ void LossRowsKernel(int64_t rows, int64_t classes, const float* logits, const int32_t* labels,
                               const float* weights, float* dlogits, double* row_results) {
  const int lane = threadIdx.x % kWarp;
  const int64_t row = FirstIndex() / kWarp;
  if (row >= rows) return;  // `row` is the same for the whole warp.
  const float* x = logits + row * classes;
  float* dx = dlogits == nullptr ? nullptr : dlogits + row * classes;
  double* result = row_results + row * 3;
  const float weight = weights[row];
  if (weight == 0) {  // The results must not depend on the logits, which may be NaN.
    for (int64_t c = lane; dx != nullptr && c < classes; c += kWarp) dx[c] = 0;
    if (lane < 3) result[lane] = 0;
    return;
  }
  float maximum = -kInfinity;
  for (int64_t c = lane; c < classes; c += kWarp) maximum = fmaxf(maximum, x[c]);
  maximum = AcrossWarp(maximum, Larger);
  float sum = 0;
  int64_t first = classes;  // Position of the first maximum.
  for (int64_t c = lane; c < classes; c += kWarp) {
    sum += expf(x[c] - maximum);
    if (x[c] == maximum) first = Smaller(first, c);
  }
  sum = AcrossWarp(sum, Sum);
  first = AcrossWarp(first, Smaller);
  const int64_t label = labels[row];
  const float scale = weight / sum;
  for (int64_t c = lane; dx != nullptr && c < classes; c += kWarp) {
    dx[c] = scale * expf(x[c] - maximum) - (c == label ? weight : 0.0f);
  }
  if (lane != 0) return;
  result[0] = weight * (log(static_cast<double>(sum)) - (x[label] - maximum));
  result[1] = first == label ? weight : 0;
  result[2] = weight;
}

// One block: result[k] = sum over rows of row_results[row][k].
__global__ void AddRowsKernel(int64_t rows, const double* row_results, double* result) {
  __shared__ double sums[3][kThreads];
  for (int k = 0; k < 3; ++k) {
    double sum = 0;
    for (int64_t row = threadIdx.x; row < rows; row += kThreads) sum += row_results[row * 3 + k];
    sums[k][threadIdx.x] = sum;
  }
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x >= half) continue;
    for (int k = 0; k < 3; ++k) sums[k][threadIdx.x] += sums[k][threadIdx.x + half];
  }
  __syncthreads();
  if (threadIdx.x < 3) result[threadIdx.x] = sums[threadIdx.x][0];
}

}  // namespace

cudaError_t CheckKernelImage() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(AddRowsKernel));
}

cudaError_t ConvertBytes(cudaStream_t stream, int64_t count, float scale, float shift, const uint8_t* in,
                         float* out) {
  return Launch(ConvertBytesKernel, BlocksFor(count), kThreads, stream, count, scale, shift, in, out);
}

cudaError_t ToBfloat16(cudaStream_t stream, int64_t count, const float* in, __nv_bfloat16* out) {
  return Launch(ToBfloat16Kernel, BlocksFor(count), kThreads, stream, count, in, out);
}

cudaError_t FromBfloat16(cudaStream_t stream, int64_t count, const __nv_bfloat16* in, float* out) {
  return Launch(FromBfloat16Kernel, BlocksFor(count), kThreads, stream, count, in, out);
}

cudaError_t AddBias(cudaStream_t stream, int64_t rows, int64_t columns, bool relu, const float* bias,
                    float* y) {
  const int64_t count = rows * columns;
  return Launch(AddBiasKernel, BlocksFor(count), kThreads, stream, count, columns, relu, bias, y);
}

int64_t ColumnSumScratch(int64_t rows, int64_t columns) { return CutRows(rows).count * columns; }

cudaError_t MaskAndSumColumns(cudaStream_t stream, int64_t rows, int64_t columns, const float* y, float* dy,
                              float* sums, float* scratch) {
  const dim3 threads(kWarp, kSumRows);
  const auto column_blocks = static_cast<unsigned>(Divide(columns, kWarp));
  const RowBlocks cut = CutRows(rows);
  const dim3 grid(column_blocks, static_cast<unsigned>(cut.count));
  float* const target = cut.count == 1 ? sums : scratch;
  const cudaError_t launched =
      Launch(SumColumnsKernel, grid, threads, stream, rows, columns, cut.rows, y, dy, target);
  if (launched != cudaSuccess || cut.count == 1) return launched;
  return Launch(SumColumnsKernel, column_blocks, threads, stream, cut.count, columns, cut.count, nullptr,
                scratch, sums);
}

cudaError_t SoftmaxCrossEntropy(cudaStream_t stream, int64_t rows, int64_t classes, const float* logits,
                                const int32_t* labels, const float* weights, float* dlogits,
                                double* row_results, double* result) {
  const auto blocks = static_cast<unsigned>(Divide(rows, kThreads / kWarp));
  const cudaError_t launched = Launch(LossRowsKernel, blocks, kThreads, stream, rows, classes, logits, labels,
                                      weights, dlogits, row_results);
  if (launched != cudaSuccess) return launched;
  return Launch(AddRowsKernel, 1, kThreads, stream, rows, row_results, result);
}

}  // namespace tethys::cuda
