// Device memory that primitives need only while they run: workspaces of NVIDIA's libraries, partial sums of
// columns. All primitives of a device share it, because they run on one stream, one after the other.
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_SHARED_WORKSPACE_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_SHARED_WORKSPACE_H_

#include <memory>
#include <vector>

#include "runtime/device/cuda/memory_pool.h"

namespace tethys::cuda {

class SharedWorkspace {
 public:
  explicit SharedWorkspace(MemoryPool& pool) : pool_(pool) {}

  // Makes the memory at least this large, for a new primitive. ResourceExhausted: too little memory; the
  // memory stays unchanged.
  absl::Status Reserve(int64_t bytes) {
    if (!buffers_.empty() && bytes <= buffers_.back()->bytes()) return absl::OkStatus();
    TETHYS_ASSIGN_OR_RETURN(auto larger, pool_.Allocate(bytes, MemoryKind::kDevice));
    if (!used_ && !buffers_.empty()) buffers_.pop_back();
    buffers_.push_back(std::move(larger));
    used_ = false;
    return absl::OkStatus();
  }

  // Returns memory of the largest size that was reserved. Work that was captured with the returned address
  // may run again even after a later Reserve.
  void* data() {
    used_ = true;
    return buffers_.back()->data();
  }
  float* floats() { return static_cast<float*>(data()); }

 private:
  MemoryPool& pool_;
  // The last buffer is the largest; graphs may use the buffers before it.
  std::vector<std::unique_ptr<Buffer>> buffers_;
  bool used_ = false;  // True once the last buffer was handed out.
};

}  // namespace tethys::cuda

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_SHARED_WORKSPACE_H_
