// Launches a kernel, for .cu files. The one place that needs CUDA's own syntax: what tests put in its place
// (tests/testing/cuda_on_host.h) runs the same kernels without a GPU.
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_LAUNCH_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_LAUNCH_H_

#include <cuda_runtime.h>

namespace tethys::cuda {

// The error of the launch; what the kernel does wrong is noticed later.
template <typename... Parameters, typename... Arguments>
cudaError_t Launch(void (*kernel)(Parameters...), dim3 blocks, dim3 threads, cudaStream_t stream,
                   Arguments... arguments) {
  kernel<<<blocks, threads, 0, stream>>>(arguments...);
  return cudaGetLastError();
}

}  // namespace tethys::cuda

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_LAUNCH_H_
