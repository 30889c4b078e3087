// One convolution, or one of its gradients, as an operation graph of cuDNN 9, compiled for a shape. The
// engine is chosen once, from cuDNN's heuristics, never by timing, among those whose results are reproducible
// and whose arithmetic the precision allows.
//
// cuDNN can also compile for a GPU given by a descriptor only, so that a test can check without a GPU whether
// a shape has an engine.
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_CUDNN_GRAPH_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_CUDNN_GRAPH_H_

#include <cudnn.h>

#include <memory>

#include "runtime/device/cuda/matmul.h"
#include "runtime/device/device.h"

namespace tethys::cuda {

enum class ConvolutionPass { kForward, kData, kFilters };

// The GPU that a plan is compiled for: the handle's. If the handle is null, it is the GPU of the descriptor
// (CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, cuDNN 9.8 or later), and plans cannot run.
struct CudnnTarget {
  cudnnHandle_t handle = nullptr;
  cudnnBackendDescriptor_t gpu = nullptr;
};

// Images and filters as in ConvolutionShape; without bias and activation. With Precision::kBf16 images,
// filters and outputs are bfloat16, otherwise float32; sums are float32.
class ConvolutionPlan {
 public:
  // `target` outlives the plan. Unimplemented: cuDNN has no engine for the shape.
  static absl::StatusOr<std::unique_ptr<ConvolutionPlan>> Create(const CudnnTarget& target,
                                                                 ConvolutionPass pass,
                                                                 const ConvolutionShape& shape,
                                                                 Precision precision);
  virtual ~ConvolutionPlan() = default;

  // Writes outputs (kForward), images (kData) or filters (kFilters) and reads the other two. All are 16-byte
  // aligned.
  virtual absl::Status Run(Stream& stream, const void* images, const void* filters, const void* outputs,
                           void* workspace) = 0;
  virtual int64_t workspace_bytes() const = 0;
  virtual int64_t engine() const = 0;  // cuDNN's number of the engine, for logs.
};

}  // namespace tethys::cuda

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_CUDNN_GRAPH_H_
