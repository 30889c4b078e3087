// Reuses device and pinned host memory of one GPU: cudaMalloc and cudaMallocHost take up to milliseconds, and
// a model's next plan needs buffers of the sizes that its previous plan freed. Used by the device's thread.
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

  // Returns zeroed memory after waiting for all work of the GPU. The buffer keeps the pool alive; its
  // destructor returns the memory to the pool. ResourceExhausted says how much memory is free and what to do.
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t bytes, MemoryKind kind);

  // Frees all memory that no buffer uses. Waits for the work that uses this memory.
  void FreeUnused();

 private:
  class PooledBuffer;
  using FreeBlocks = std::map<int64_t, std::vector<void*>>;  // Keyed by size in bytes.

  absl::StatusOr<void*> Take(int64_t block_bytes, MemoryKind kind);
  FreeBlocks& free_blocks(MemoryKind kind) { return kind == MemoryKind::kDevice ? device_ : pinned_; }

  FreeBlocks device_;
  FreeBlocks pinned_;
};

}  // namespace tethys::cuda

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_MEMORY_POOL_H_
