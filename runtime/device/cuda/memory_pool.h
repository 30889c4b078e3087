// Device and pinned host memory of one GPU, kept for the next who asks: cudaMalloc and cudaMallocHost cost up
// to milliseconds, and a second plan asks for what the first gave back. Used by the thread of its device.
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_MEMORY_POOL_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_MEMORY_POOL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "runtime/device/device.h"

namespace tethys::cuda {

class MemoryPool : public std::enable_shared_from_this<MemoryPool> {
 public:
  ~MemoryPool();

  // Zeroed; waits for all work of the GPU. Goes back to the pool with the buffer, which keeps the pool alive.
  // ResourceExhausted says how much there is, and what to do.
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t bytes, MemoryKind kind);

 private:
  class PooledBuffer;
  using FreeBlocks = std::map<int64_t, std::vector<void*>>;  // By size.

  absl::StatusOr<void*> Take(int64_t block_bytes, MemoryKind kind);
  void FreeAll();
  FreeBlocks& free_blocks(MemoryKind kind) { return kind == MemoryKind::kDevice ? device_ : pinned_; }

  FreeBlocks device_;
  FreeBlocks pinned_;
};

}  // namespace tethys::cuda

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_MEMORY_POOL_H_
