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

#include "runtime/device/cuda/convolution_plan.h"

namespace tethys::cuda {

// The GPU that a plan is compiled for: the GPU of `handle`. If `handle` is null, it is the GPU that the
// descriptor `gpu` describes (CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, cuDNN 9.8 or later), and plans cannot run.
struct CudnnTarget {
  cudnnHandle_t handle = nullptr;
  cudnnBackendDescriptor_t gpu = nullptr;
};

// `target` must outlive the plan. Returns Unimplemented if cuDNN has no usable engine for the shape.
absl::StatusOr<std::unique_ptr<ConvolutionPlan>> CreateCudnnPlan(const CudnnTarget& target,
                                                                 ConvolutionPass pass,
                                                                 const ConvolutionShape& shape,
                                                                 Precision precision);

}  // namespace tethys::cuda

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_CUDNN_GRAPH_H_
