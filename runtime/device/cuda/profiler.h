// Names a thread's work in the timelines of NVIDIA's profilers (NVTX). Costs next to nothing when no profiler
// is attached. Thread-safe.
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_PROFILER_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_PROFILER_H_

#include <cstdint>

namespace tethys::cuda {

// These functions implement Device::BeginRange and Device::EndRange.
void BeginRange(const char* name, int64_t number);
void EndRange();

}  // namespace tethys::cuda

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_PROFILER_H_
