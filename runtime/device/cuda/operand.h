// Weights, or their gradients, in the precision that a product computes with: the float32 array itself, or a
// bfloat16 copy of it. Owned by one primitive.
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_OPERAND_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_OPERAND_H_

#include <memory>

#include "runtime/device/cuda/primitives.h"

namespace tethys::cuda {

class Operand {
 public:
  absl::Status Initialize(const Libraries& libraries, int64_t count);

  // Returns memory that contains `values` in the precision of the product.
  absl::StatusOr<const void*> Read(Stream& stream, const float* values);
  // Returns the memory that the product must write to. After the product, Written converts the result into
  // `values`.
  void* Target(float* values) { return copy_ == nullptr ? values : copy_->data(); }
  absl::Status Written(Stream& stream, float* values);

  int64_t bytes() const { return copy_ == nullptr ? 0 : copy_->bytes(); }

 private:
  int64_t count_ = 0;
  std::unique_ptr<Buffer> copy_;  // The bfloat16 copy; null if the product computes in float32.
};

}  // namespace tethys::cuda

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_OPERAND_H_
