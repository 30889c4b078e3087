// Grid-stride loops for .cu files: each thread handles every GridSize()-th element, so that a grid may have
// fewer threads than elements.
//
//   for (int64_t i = FirstIndex(); i < count; i += GridSize()) out[i] = ...;
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_GRID_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_GRID_H_

#include <cstdint>
#include <limits>

namespace tethys::cuda {

inline constexpr int kThreads = 256;  // Threads of a block.
inline constexpr int kWarp = 32;
inline constexpr int64_t kMostBlocks = 1 << 16;
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The quotient, rounded up.
inline int64_t Divide(int64_t count, int64_t by) { return (count + by - 1) / by; }

inline unsigned BlocksFor(int64_t count) {
  const int64_t blocks = Divide(count, kThreads);
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks < kMostBlocks ? blocks : kMostBlocks);
}

__device__ inline int64_t FirstIndex() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline int64_t GridSize() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

}  // namespace tethys::cuda

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_GRID_H_
