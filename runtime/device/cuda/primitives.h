// Creates the primitives of a CUDA device, which has checked the shapes. Contracts:
// runtime/device/primitive_factory.h. Memory that a primitive needs beyond its arguments is allocated here,
// once.
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_PRIMITIVES_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_PRIMITIVES_H_

#include <cublasLt.h>
#include <cudnn.h>

#include <memory>
#include <vector>

#include "runtime/device/cuda/matmul.h"
#include "runtime/device/cuda/memory_pool.h"
#include "runtime/device/cuda/shared_workspace.h"

namespace tethys::cuda {

// Handles and memory that the primitives of a device share. They must outlive the primitives.
struct Libraries {
  cublasLtHandle_t cublas = nullptr;
  cudnnHandle_t cudnn = nullptr;
  MemoryPool* memory = nullptr;
  SharedWorkspace* workspace = nullptr;
  Precision precision = Precision::kFp32;
  // The type of activations. Products have this type, too, unless they use TF32.
  ElementType activations = ElementType::kFloat32;
};

#define TETHYS_DECLARE_CREATE(Shape) Created<Shape> Create(const Shape& shape, const Libraries& libraries);
TETHYS_PRIMITIVES(TETHYS_DECLARE_CREATE)
#undef TETHYS_DECLARE_CREATE

absl::StatusOr<std::unique_ptr<InputConversionPrimitive>> CreateInputConversion(const Libraries& libraries,
                                                                                int64_t count,
                                                                                const InputScaling& scaling);
absl::StatusOr<std::unique_ptr<UpdatePrimitive>> CreateUpdate(const Libraries& libraries,
                                                              const UpdateRule& rule,
                                                              const std::vector<UpdateRegion>& regions);
absl::StatusOr<std::unique_ptr<ClipPrimitive>> CreateClip(const Libraries& libraries, double limit,
                                                          const std::vector<UpdateRegion>& regions);

}  // namespace tethys::cuda

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_PRIMITIVES_H_
