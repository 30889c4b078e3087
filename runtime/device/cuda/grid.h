// Grid-stride loops for .cu files: each thread handles every GridSize()-th element, so that a grid may have
// fewer threads than elements.
//
//   for (int64_t i = FirstIndex(); i < count; i += GridSize()) out[i] = ...;
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_GRID_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_GRID_H_

#include <cstdint>
#include <limits>

namespace tethys::cuda {

inline constexpr int kThreads = 256;  // The number of threads of a block.
inline constexpr int kWarp = 32;
inline constexpr int64_t kMostBlocks = 1 << 16;
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The quotient, rounded up.
inline int64_t Divide(int64_t count, int64_t by) { return (count + by - 1) / by; }

inline unsigned BlocksFor(int64_t count) {
  const int64_t blocks = Divide(count, kThreads);
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks < kMostBlocks ? blocks : kMostBlocks);
}

// A grid over a matrix. Each thread stays in one column and handles every RowStep()-th row of it, so that the
// values of a column are read once:
//
//   if (Column() >= columns) return;
//   for (int64_t row = FirstRow(); row < rows; row += RowStep()) ...
struct MatrixGrid {
  dim3 blocks, threads;
};
inline MatrixGrid GridOverMatrix(int64_t rows, int64_t columns) {
  constexpr int64_t kRowsOfThread = 4, kMostRowBlocks = 65535;
  const int64_t width = columns < kThreads ? columns : kThreads, height = kThreads / width;
  const int64_t row_blocks = Divide(rows, height * kRowsOfThread);
  return {.blocks = dim3(static_cast<unsigned>(Divide(columns, width)),
                         static_cast<unsigned>(row_blocks < kMostRowBlocks ? row_blocks : kMostRowBlocks)),
          .threads = dim3(static_cast<unsigned>(width), static_cast<unsigned>(height))};
}

__device__ inline int64_t Column() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline int64_t FirstRow() { return static_cast<int64_t>(blockIdx.y) * blockDim.y + threadIdx.y; }
__device__ inline int64_t RowStep() { return static_cast<int64_t>(gridDim.y) * blockDim.y; }

__device__ inline int64_t FirstIndex() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline int64_t GridSize() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

// Merges the values of the block's threads that have the same threadIdx.x. The result is valid in the thread
// with threadIdx.y == 0. All threads of the block must call this function.
template <typename Value>
__device__ void MergeOverRows(Value& value) {
  __shared__ Value values[kThreads];
  const unsigned at = threadIdx.y * blockDim.x + threadIdx.x;
  __syncthreads();  // Waits until an earlier call has read the shared memory.
  values[at] = value;
  for (unsigned rows = blockDim.y; rows > 1; rows = (rows + 1) / 2) {
    const unsigned half = (rows + 1) / 2;
    __syncthreads();
    if (threadIdx.y + half >= rows) continue;
    value.Merge(values[at + half * blockDim.x]);
    values[at] = value;
  }
}

}  // namespace tethys::cuda

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_GRID_H_
