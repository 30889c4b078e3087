// One convolution, or one of its gradients, as an operation graph of cuDNN 9, compiled for a shape. An engine
// (one of cuDNN's implementations) is chosen once, by cuDNN's heuristics and never by timing. Only engines
// whose results are reproducible and as precise as the Precision demands are considered.
//
// cuDNN can also compile for a GPU that is only described, so that a test can check without a GPU whether a
// shape has an engine.
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_CUDNN_GRAPH_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_CUDNN_GRAPH_H_

#include <cudnn.h>

#include <memory>

#include "runtime/device/cuda/matmul.h"
#include "runtime/device/device.h"

namespace tethys::cuda {

enum class ConvolutionPass { kForward, kData, kFilters };

// The GPU that a plan is compiled for: the GPU of `handle`. If `handle` is null, it is the GPU that the
// descriptor `gpu` describes (CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, cuDNN 9.8 or later), and plans cannot run.
struct CudnnTarget {
  cudnnHandle_t handle = nullptr;
  cudnnBackendDescriptor_t gpu = nullptr;
};

// A convolution without bias and activation. Images and filters are laid out as in ConvolutionShape. With
// Precision::kBf16 images, filters and outputs are bfloat16, otherwise float32; sums are float32.
class ConvolutionPlan {
 public:
  // `target` must outlive the plan. Returns Unimplemented if cuDNN has no usable engine for the shape.
  static absl::StatusOr<std::unique_ptr<ConvolutionPlan>> Create(const CudnnTarget& target,
                                                                 ConvolutionPass pass,
                                                                 const ConvolutionShape& shape,
                                                                 Precision precision);
  virtual ~ConvolutionPlan() = default;

  // Writes outputs (kForward), images (kData) or filters (kFilters), and reads the other two arrays. All
  // three arrays are 16-byte aligned.
  virtual absl::Status Run(Stream& stream, const void* images, const void* filters, const void* outputs,
                           void* workspace) = 0;
  virtual int64_t workspace_bytes() const = 0;
  virtual int64_t engine() const = 0;  // cuDNN's number of the engine, for logs.
};

}  // namespace tethys::cuda

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_CUDNN_GRAPH_H_
