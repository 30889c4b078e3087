// Launches a kernel of a .cu file. This is the only file that needs CUDA's launch syntax; tests replace it
// (tests/testing/cuda_on_host.h) to run the same kernels without a GPU.
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_LAUNCH_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_LAUNCH_H_

#include <cuda_runtime.h>

#include <cstdint>

namespace tethys::cuda {

// Returns the error of the launch; errors of the kernel itself are reported later.
template <typename... Parameters, typename... Arguments>
cudaError_t Launch(void (*kernel)(Parameters...), dim3 blocks, dim3 threads, cudaStream_t stream,
                   Arguments... arguments) {
  kernel<<<blocks, threads, 0, stream>>>(arguments...);
  return cudaGetLastError();
}

// The GPU's clock, in nanoseconds. All processes share it, and it goes on while another process computes.
__device__ inline uint64_t GpuClock() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

}  // namespace tethys::cuda

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_LAUNCH_H_
