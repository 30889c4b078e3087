#include "runtime/device/cuda/operand.h"

#include "runtime/device/cuda/cuda_status.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/stream.h"

namespace tethys::cuda {

absl::Status Operand::Initialize(const Libraries& libraries, int64_t count) {
  count_ = count;
  if (libraries.precision != Precision::kBf16) return absl::OkStatus();
  const int64_t bytes = count * static_cast<int64_t>(sizeof(__nv_bfloat16));
  TETHYS_ASSIGN_OR_RETURN(copy_, libraries.memory->Allocate(bytes, MemoryKind::kDevice));
  return absl::OkStatus();
}

absl::StatusOr<const void*> Operand::Read(Stream& stream, const float* values) {
  if (copy_ == nullptr) return values;
  auto* copy = static_cast<__nv_bfloat16*>(copy_->data());
  TETHYS_RETURN_IF_CUDA_ERROR(ToBfloat16(Handle(stream), count_, values, copy));
  return copy;
}

absl::Status Operand::Written(Stream& stream, float* values) {
  if (copy_ == nullptr) return absl::OkStatus();
  const auto* copy = static_cast<const __nv_bfloat16*>(copy_->data());
  TETHYS_RETURN_IF_CUDA_ERROR(FromBfloat16(Handle(stream), count_, copy, values));
  return absl::OkStatus();
}

}  // namespace tethys::cuda
