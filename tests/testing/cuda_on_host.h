// CUDA's kernel language for the host, so that Tethys's kernels can be tested without a GPU. This header
// replaces launch.h: include it before the .cu file. The threads of a block are coroutines that switch where
// they synchronize, and blocks run one after another. So tests cover arithmetic, indices and barriers, but
// neither races nor speed. A shuffle that some threads of a warp miss ends the program.
#ifndef TETHYS_TESTS_TESTING_CUDA_ON_HOST_H_
#define TETHYS_TESTS_TESTING_CUDA_ON_HOST_H_

#define TETHYS_RUNTIME_DEVICE_CUDA_LAUNCH_H_
#define __global__
#define __device__
#define __shared__ static  // A static variable suffices, because only one block runs at a time.

#include <cuda_runtime_api.h>
#include <math.h>

#include <cstdint>

#include "absl/functional/function_ref.h"

inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;

namespace tethys::cuda {

constexpr int kHostWarp = 32;

// Runs `kernel` for each thread of each block.
void RunOnHost(dim3 blocks, dim3 threads, absl::FunctionRef<void()> kernel);
// A barrier among all threads of the block that have not returned.
void MeetBlock();
// A barrier among all threads of the warp that have not returned.
void MeetWarp();

template <typename... Parameters, typename... Arguments>
cudaError_t Launch(void (*kernel)(Parameters...), dim3 blocks, dim3 threads, cudaStream_t,
                   Arguments... arguments) {
  RunOnHost(blocks, threads, [&] { kernel(arguments...); });
  return cudaGetLastError();
}

// Each read of the GPU's clock is a microsecond after the read before it. After `reads_before_pause` further
// reads, the clock advances by 3 ms once, as if the GPU had paused. -1: no pause.
inline int reads_before_pause = -1;
inline uint64_t GpuClock() {
  static uint64_t now = 0;
  now += 1000;
  if (reads_before_pause >= 0 && reads_before_pause-- == 0) now += 3'000'000;
  return now;
}

}  // namespace tethys::cuda

inline void __syncthreads() { tethys::cuda::MeetBlock(); }

template <typename T>
T __shfl_xor_sync(unsigned /*mask*/, T value, int offset) {
  static T values[tethys::cuda::kHostWarp];
  const int lane = (threadIdx.y * blockDim.x + threadIdx.x) % tethys::cuda::kHostWarp;
  values[lane] = value;
  tethys::cuda::MeetWarp();
  const T other = values[lane ^ offset];
  tethys::cuda::MeetWarp();
  return other;
}

template <typename T>
T atomicAdd(T* at, T value) {
  const T before = *at;
  *at += value;
  return before;
}

#endif  // TETHYS_TESTS_TESTING_CUDA_ON_HOST_H_
