// Products of row-major matrices on cuBLASLt: c [m, n] = a b, with float32 sums. The algorithm is chosen
// once, by cuBLASLt's heuristics and never by timing. Used by the device's thread.
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_MATMUL_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_MATMUL_H_

#include <cublasLt.h>

#include <memory>

#include "runtime/device/device.h"

namespace tethys::cuda {

enum class Precision { kFp32, kTf32, kBf16 };

struct MatmulShape {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;  // a is stored as [k, m] instead of [m, k].
  bool transpose_b = false;  // b is stored as [n, k] instead of [k, n].
  bool bias = false;  // Adds a vector of n elements to each row. Allowed only if the result is float32.
  ElementType result = ElementType::kFloat32;  // The type of c.
  bool accumulate = false;                     // Adds to c: c += a b. Allowed only if the result is float32.
};

class Matmul {
 public:
  // `handle` must outlive the product. Unimplemented: cuBLASLt has no algorithm for the shape.
  static absl::StatusOr<std::unique_ptr<Matmul>> Create(cublasLtHandle_t handle, const MatmulShape& shape,
                                                        Precision precision);
  virtual ~Matmul() = default;
  // a and b are float32, or bfloat16 with Precision::kBf16. All arrays are 16-byte aligned. bias is null if
  // MatmulShape::bias is false.
  virtual absl::Status Run(Stream& stream, const void* a, const void* b, const float* bias, void* c,
                           void* workspace) = 0;
  virtual int64_t workspace_bytes() const = 0;
};

}  // namespace tethys::cuda

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_MATMUL_H_
