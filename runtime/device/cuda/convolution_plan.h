// One convolution, or one of its gradients, made for a shape. There are three kinds of plans: on cuDNN
// (cudnn_graph.h), as products of matrices on cuBLASLt, and by our own kernels for few channels.
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_CONVOLUTION_PLAN_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_CONVOLUTION_PLAN_H_

#include <memory>
#include <string>

#include "runtime/device/cuda/primitives.h"

namespace tethys::cuda {

enum class ConvolutionPass { kForward, kData, kFilters };

// A convolution without bias and activation. Images, filters and outputs are laid out as in ConvolutionShape,
// and 16-byte aligned. With Precision::kBf16 they are bfloat16, otherwise float32; sums are float32.
class ConvolutionPlan {
 public:
  virtual ~ConvolutionPlan() = default;

  // Writes outputs (kForward), images (kData) or filters (kFilters), and reads the other two arrays.
  virtual absl::Status Run(Stream& stream, const void* images, const void* filters, const void* outputs,
                           void* workspace) = 0;
  virtual int64_t workspace_bytes() const = 0;
  // True if the plan takes and writes filters in float32 in every precision.
  virtual bool filters_in_float32() const { return false; }
  virtual std::string Describe() const = 0;  // Names the library or kernels that compute, for logs.
};

// True if products of matrices (lowered_convolution.cu) are faster than cuDNN for this convolution.
bool IsLowered(ConvolutionPass pass, const ConvolutionShape& shape, Precision precision);
// The memory, in bytes, that the columns of lowered_convolution.cu should take at a time.
inline constexpr int64_t kColumnBytes = int64_t{128} << 20;
absl::StatusOr<std::unique_ptr<ConvolutionPlan>> CreateLowered(const Libraries& libraries,
                                                               ConvolutionPass pass,
                                                               const ConvolutionShape& shape,
                                                               int64_t column_bytes = kColumnBytes);

// True if our own kernels for few channels (small_convolution.cu) compute this convolution.
bool IsSmall(const ConvolutionShape& shape);
std::unique_ptr<ConvolutionPlan> CreateSmall(ElementType type, ConvolutionPass pass,
                                             const ConvolutionShape& shape);

}  // namespace tethys::cuda

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_CONVOLUTION_PLAN_H_
