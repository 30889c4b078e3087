// Creates the primitives of the CPU device. Called by cpu_device.cc only, which has checked the arguments.
#ifndef TETHYS_RUNTIME_DEVICE_CPU_PRIMITIVES_H_
#define TETHYS_RUNTIME_DEVICE_CPU_PRIMITIVES_H_

#include <memory>
#include <vector>

#include "runtime/device/cpu/kernels.h"
#include "runtime/device/cpu/scratch.h"
#include "runtime/device/device.h"

namespace tethys::cpu {

// Activations on a CPU are float32.
inline const float* Floats(const void* activations) { return static_cast<const float*>(activations); }
inline float* Floats(void* activations) { return static_cast<float*>(activations); }

std::unique_ptr<DensePrimitive> CreateDense(const DenseShape& shape, int threads, const Kernels& kernels);
absl::StatusOr<std::unique_ptr<ConvolutionPrimitive>> CreateConvolution(const ConvolutionShape& shape,
                                                                        int threads, const Kernels& kernels,
                                                                        std::shared_ptr<Scratch> scratch);
absl::StatusOr<std::unique_ptr<MaxPoolingPrimitive>> CreateMaxPooling(const MaxPoolingShape& shape,
                                                                      const Kernels& kernels);
std::unique_ptr<AveragePoolingPrimitive> CreateAveragePooling(const AveragePoolingShape& shape,
                                                              const Kernels& kernels);
std::unique_ptr<BatchNormalisationPrimitive> CreateBatchNormalisation(const BatchNormalisationShape& shape,
                                                                      WorkerSums* sums,
                                                                      const Kernels& kernels);
std::unique_ptr<SumPrimitive> CreateSum(const SumShape& shape, const Kernels& kernels);
std::unique_ptr<BiasPrimitive> CreateBias(int64_t rows, int64_t columns);
std::unique_ptr<ActivationPrimitive> CreateActivation(int64_t count, ActivationFunction function,
                                                      const Kernels& kernels);
absl::StatusOr<std::unique_ptr<LossPrimitive>> CreateSoftmaxCrossEntropy(
    const SoftmaxCrossEntropyShape& shape, const Kernels& kernels);
std::unique_ptr<LossPrimitive> CreateMeanSquaredError(const MeanSquaredErrorShape& shape);
std::unique_ptr<InputConversionPrimitive> CreateInputConversion(int64_t count, const InputScaling& scaling,
                                                                const Kernels& kernels);
std::unique_ptr<DropoutPrimitive> CreateDropout(const DropoutShape& shape, const Kernels& kernels);
std::unique_ptr<UpdatePrimitive> CreateUpdate(const UpdateRule& rule, std::vector<UpdateRegion> regions,
                                              const Kernels& kernels);
std::unique_ptr<ClipPrimitive> CreateClip(double limit, std::vector<UpdateRegion> regions,
                                          const Kernels& kernels);

}  // namespace tethys::cpu

#endif  // TETHYS_RUNTIME_DEVICE_CPU_PRIMITIVES_H_
