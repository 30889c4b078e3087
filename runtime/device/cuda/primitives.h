// Creates the primitives of a CUDA device, which has checked the shapes. Contracts:
// runtime/device/primitive_factory.h. `type` is that of activations. Memory that a primitive needs beyond its
// arguments is allocated here, once.
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

// Handles and memory that the primitives of a device share; they outlive the primitives.
struct Libraries {
  cublasLtHandle_t cublas = nullptr;
  cudnnHandle_t cudnn = nullptr;
  MemoryPool* memory = nullptr;
  SharedWorkspace* workspace = nullptr;
  Precision precision = Precision::kFp32;
  ElementType activations = ElementType::kFloat32;  // Also that of products, unless these use TF32.
};

absl::StatusOr<std::unique_ptr<DensePrimitive>> CreateDense(const Libraries& libraries,
                                                            const DenseShape& shape);
absl::StatusOr<std::unique_ptr<ConvolutionPrimitive>> CreateConvolution(const Libraries& libraries,
                                                                        const ConvolutionShape& shape);
absl::StatusOr<std::unique_ptr<MaxPoolingPrimitive>> CreateMaxPooling(ElementType type,
                                                                      const MaxPoolingShape& shape);
absl::StatusOr<std::unique_ptr<AveragePoolingPrimitive>> CreateAveragePooling(
    ElementType type, const AveragePoolingShape& shape);
absl::StatusOr<std::unique_ptr<BatchNormalisationPrimitive>> CreateBatchNormalisation(
    const Libraries& libraries, const BatchNormalisationShape& shape, WorkerSums* sums);
absl::StatusOr<std::unique_ptr<SumPrimitive>> CreateSum(const SumShape& shape);
absl::StatusOr<std::unique_ptr<BiasPrimitive>> CreateBias(const Libraries& libraries, int64_t rows,
                                                          int64_t columns);
absl::StatusOr<std::unique_ptr<ActivationPrimitive>> CreateActivation(ElementType type, int64_t count,
                                                                      ActivationFunction function);
absl::StatusOr<std::unique_ptr<DropoutPrimitive>> CreateDropout(ElementType type, const DropoutShape& shape);
absl::StatusOr<std::unique_ptr<LossPrimitive>> CreateSoftmaxCrossEntropy(
    const Libraries& libraries, const SoftmaxCrossEntropyShape& shape);
absl::StatusOr<std::unique_ptr<LossPrimitive>> CreateMeanSquaredError(const Libraries& libraries,
                                                                      const MeanSquaredErrorShape& shape);
absl::StatusOr<std::unique_ptr<InputConversionPrimitive>> CreateInputConversion(ElementType type,
                                                                                int64_t count,
                                                                                const InputScaling& scaling);
absl::StatusOr<std::unique_ptr<UpdatePrimitive>> CreateUpdate(const Libraries& libraries,
                                                              const UpdateRule& rule,
                                                              const std::vector<UpdateRegion>& regions);
absl::StatusOr<std::unique_ptr<ClipPrimitive>> CreateClip(const Libraries& libraries, double limit,
                                                          const std::vector<UpdateRegion>& regions);

}  // namespace tethys::cuda

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_PRIMITIVES_H_
