// Tables that a primitive's kernels read, copied to the GPU when the primitive is created.
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_DEVICE_TABLE_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_DEVICE_TABLE_H_

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "runtime/device/cuda/cuda_status.h"
#include "runtime/device/cuda/memory_pool.h"

namespace tethys::cuda {

// Returns memory of the GPU that contains the entries. Waits until the entries are on the GPU: cudaMemcpy may
// return earlier, once it has read pageable memory, and our streams do not wait for the copy.
template <typename Entry>
absl::StatusOr<std::unique_ptr<Buffer>> OnDevice(MemoryPool& memory, const std::vector<Entry>& entries) {
  const auto bytes = static_cast<int64_t>(entries.size() * sizeof(Entry));
  TETHYS_ASSIGN_OR_RETURN(auto on_device, memory.Allocate(bytes, MemoryKind::kDevice));
  TETHYS_RETURN_IF_CUDA_ERROR(cudaMemcpy(on_device->data(), entries.data(), bytes, cudaMemcpyHostToDevice));
  TETHYS_RETURN_IF_CUDA_ERROR(cudaDeviceSynchronize());
  return on_device;
}

}  // namespace tethys::cuda

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_DEVICE_TABLE_H_
