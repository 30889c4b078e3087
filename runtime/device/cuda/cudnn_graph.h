// One convolution, or one of its gradients, as an operation graph of cuDNN 9, compiled for a shape. Fused
// graphs will join here. The engine is chosen once, from cuDNN's heuristics, never by timing, among those
// whose results repeat and whose arithmetic the precision allows.
//
// cuDNN compiles for a GPU that is only described, too. So a test can ask, where there is none, whether a
// shape has an engine.
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_CUDNN_GRAPH_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_CUDNN_GRAPH_H_

#include <cudnn.h>

#include <memory>

#include "runtime/device/cuda/matmul.h"
#include "runtime/device/device.h"

namespace tethys::cuda {

enum class ConvolutionPass { kForward, kData, kFilters };

// The GPU that a plan is for: a handle's, or where that is null the one of a descriptor
// (CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, cuDNN 9.8 or later), whose plans cannot run.
struct CudnnTarget {
  cudnnHandle_t handle = nullptr;
  cudnnBackendDescriptor_t gpu = nullptr;
};

// Images and filters as in ConvolutionShape; without bias and activation. With Precision::kBf16 all three are
// bfloat16, else float32; sums are float32.
class ConvolutionPlan {
 public:
  // `target` outlives the plan. Unimplemented: cuDNN has no engine for it.
  static absl::StatusOr<std::unique_ptr<ConvolutionPlan>> Create(const CudnnTarget& target,
                                                                 ConvolutionPass pass,
                                                                 const ConvolutionShape& shape,
                                                                 Precision precision);
  virtual ~ConvolutionPlan() = default;

  // Writes y forward, dx for the data, dfilters for the filters; reads the two others. All 16-byte aligned.
  virtual absl::Status Run(Stream& stream, const void* images, const void* filters, const void* outputs,
                           void* workspace) = 0;
  virtual int64_t workspace_bytes() const = 0;
  virtual int64_t engine() const = 0;  // As cuDNN numbers the engines of the operation, for logs.
};

}  // namespace tethys::cuda

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_CUDNN_GRAPH_H_
