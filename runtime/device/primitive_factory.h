// Creates the primitives of a device, which are its operations for one fixed shape each. Part of the contract
// in device.h. Every function returns InvalidArgument for a shape or parameter that has no meaning.
#ifndef TETHYS_RUNTIME_DEVICE_PRIMITIVE_FACTORY_H_
#define TETHYS_RUNTIME_DEVICE_PRIMITIVE_FACTORY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device/elementwise_primitives.h"
#include "runtime/device/image_primitives.h"
#include "runtime/device/loss_primitives.h"
#include "runtime/device/normalisation_primitive.h"
#include "runtime/device/primitives.h"
#include "runtime/tensor/batch.h"

namespace tethys {

class PrimitiveFactory {
 public:
  virtual ~PrimitiveFactory() = default;

  virtual absl::StatusOr<std::unique_ptr<DensePrimitive>> CreateDense(const DenseShape& shape) = 0;
  virtual absl::StatusOr<std::unique_ptr<ConvolutionPrimitive>> CreateConvolution(
      const ConvolutionShape& shape) = 0;
  virtual absl::StatusOr<std::unique_ptr<MaxPoolingPrimitive>> CreateMaxPooling(
      const MaxPoolingShape& shape) = 0;
  virtual absl::StatusOr<std::unique_ptr<AveragePoolingPrimitive>> CreateAveragePooling(
      const AveragePoolingShape& shape) = 0;
  // `sums` outlives the primitive; null: the primitive normalises by this worker's batch.
  virtual absl::StatusOr<std::unique_ptr<BatchNormalisationPrimitive>> CreateBatchNormalisation(
      const BatchNormalisationShape& shape, WorkerSums* sums) = 0;
  virtual absl::StatusOr<std::unique_ptr<SumPrimitive>> CreateSum(const SumShape& shape) = 0;
  virtual absl::StatusOr<std::unique_ptr<BiasPrimitive>> CreateBias(int64_t rows, int64_t columns) = 0;
  virtual absl::StatusOr<std::unique_ptr<ActivationPrimitive>> CreateActivation(
      int64_t count, ActivationFunction function) = 0;
  virtual absl::StatusOr<std::unique_ptr<DropoutPrimitive>> CreateDropout(const DropoutShape& shape) = 0;
  virtual absl::StatusOr<std::unique_ptr<LossPrimitive>> CreateSoftmaxCrossEntropy(
      const SoftmaxCrossEntropyShape& shape) = 0;
  virtual absl::StatusOr<std::unique_ptr<LossPrimitive>> CreateMeanSquaredError(
      const MeanSquaredErrorShape& shape) = 0;
  virtual absl::StatusOr<std::unique_ptr<InputConversionPrimitive>> CreateInputConversion(
      int64_t count, const InputScaling& scaling) = 0;
  // `regions` do not overlap.
  virtual absl::StatusOr<std::unique_ptr<UpdatePrimitive>> CreateUpdate(
      const UpdateRule& rule, std::vector<UpdateRegion> regions) = 0;
  // `limit` is above 0.
  virtual absl::StatusOr<std::unique_ptr<ClipPrimitive>> CreateClip(double limit,
                                                                    std::vector<UpdateRegion> regions) = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_PRIMITIVE_FACTORY_H_
