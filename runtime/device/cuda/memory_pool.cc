#include "runtime/device/cuda/memory_pool.h"

#include <cuda_runtime_api.h>

#include <cstring>
#include <utility>

#include "runtime/device/cuda/cuda_status.h"

namespace tethys::cuda {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 40;
constexpr int64_t kMebibyte = int64_t{1} << 20;

// Rounds up to one of a few sizes, so that blocks can be reused: powers of two from 512 bytes to 1 MiB, whole
// mebibytes above.
int64_t BlockBytes(int64_t bytes) {
  if (bytes > kMebibyte) return (bytes + kMebibyte - 1) / kMebibyte * kMebibyte;
  int64_t block = 512;
  while (block < bytes) block *= 2;
  return block;
}

cudaError_t NewBlock(int64_t bytes, MemoryKind kind, void** block) {
  const cudaError_t error =
      kind == MemoryKind::kDevice ? cudaMalloc(block, bytes) : cudaMallocHost(block, bytes);
  // The error is cleared; otherwise the next launch would report it, even after a successful retry.
  if (error != cudaSuccess) cudaGetLastError();
  return error;
}

absl::Status FreeBlock(void* block, MemoryKind kind) {
  return CudaStatus(kind == MemoryKind::kDevice ? cudaFree(block) : cudaFreeHost(block), "cudaFree()");
}

absl::Status OutOfMemory(int64_t bytes, MemoryKind kind) {
  if (kind == MemoryKind::kPinnedHost) {
    return absl::ResourceExhaustedError(
        absl::StrCat(bytes,
                     " bytes of pinned host memory could not be allocated: free memory on this host, or "
                     "raise the limit of locked memory (ulimit -l)"));
  }
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  return absl::ResourceExhaustedError(absl::StrCat(
      bytes / kMebibyte, " MiB of GPU memory were requested, ", free / kMebibyte, " of ", total / kMebibyte,
      " MiB are free: choose a smaller batch, or end other programs on this GPU (see nvidia-smi)"));
}

}  // namespace

class MemoryPool::PooledBuffer final : public Buffer {
 public:
  PooledBuffer(std::shared_ptr<MemoryPool> pool, void* block, int64_t bytes, MemoryKind kind)
      : pool_(std::move(pool)), block_(block), bytes_(bytes), kind_(kind) {}
  ~PooledBuffer() override { pool_->free_blocks(kind_)[BlockBytes(bytes_)].push_back(block_); }
  void* data() override { return block_; }
  int64_t bytes() const override { return bytes_; }

 private:
  const std::shared_ptr<MemoryPool> pool_;
  void* const block_;
  const int64_t bytes_;
  const MemoryKind kind_;
};

MemoryPool::~MemoryPool() { FreeUnused(); }

// Freeing a block waits for the work that uses it. Freeing fails only if the GPU, and the memory with it, was
// lost.
void MemoryPool::FreeUnused() {
  for (const MemoryKind kind : {MemoryKind::kDevice, MemoryKind::kPinnedHost}) {
    for (const auto& [bytes, blocks] : free_blocks(kind)) {
      for (void* block : blocks) FreeBlock(block, kind).IgnoreError();
    }
    free_blocks(kind).clear();
  }
}

absl::StatusOr<void*> MemoryPool::Take(int64_t block_bytes, MemoryKind kind) {
  std::vector<void*>& reusable = free_blocks(kind)[block_bytes];
  if (!reusable.empty()) {
    void* block = reusable.back();
    reusable.pop_back();
    return block;
  }
  void* block = nullptr;
  cudaError_t error = NewBlock(block_bytes, kind, &block);
  if (error == cudaErrorMemoryAllocation) {
    FreeUnused();
    error = NewBlock(block_bytes, kind, &block);
  }
  if (error == cudaErrorMemoryAllocation) return OutOfMemory(block_bytes, kind);
  TETHYS_RETURN_IF_ERROR(CudaStatus(error, "cudaMalloc()"));
  return block;
}

absl::StatusOr<std::unique_ptr<Buffer>> MemoryPool::Allocate(int64_t bytes, MemoryKind kind) {
  if (bytes < 0 || bytes > kMaxBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a buffer of ", bytes, " bytes was requested; a buffer must have 0 to ", kMaxBytes, " bytes"));
  }
  TETHYS_ASSIGN_OR_RETURN(void* block, Take(BlockBytes(bytes), kind));
  auto buffer = std::make_unique<PooledBuffer>(shared_from_this(), block, bytes, kind);
  // Work enqueued before the block was returned to the pool may still use it.
  TETHYS_RETURN_IF_CUDA_ERROR(cudaDeviceSynchronize());
  if (kind == MemoryKind::kPinnedHost) {
    std::memset(block, 0, BlockBytes(bytes));
  } else {
    TETHYS_RETURN_IF_CUDA_ERROR(cudaMemset(block, 0, BlockBytes(bytes)));
    TETHYS_RETURN_IF_CUDA_ERROR(cudaDeviceSynchronize());
  }
  return buffer;
}

}  // namespace tethys::cuda
