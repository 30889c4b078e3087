// Names for what a thread does, in the pictures of NVIDIA's profilers (NVTX). Costs next to nothing where
// none is attached. Any thread.
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_PROFILER_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_PROFILER_H_

#include <cstdint>

namespace tethys::cuda {

// As Device::BeginRange and EndRange.
void BeginRange(const char* name, int64_t number);
void EndRange();

}  // namespace tethys::cuda

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_PROFILER_H_
