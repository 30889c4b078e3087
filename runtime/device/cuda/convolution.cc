// Convolutions: the three passes run on cuDNN; bias, relu, the backward mask of relu and the bias gradient
// run on our own kernels.
#include <algorithm>

#include "runtime/device/cuda/cuda_status.h"
#include "runtime/device/cuda/cudnn_graph.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/operand.h"
#include "runtime/device/cuda/primitives.h"
#include "runtime/device/cuda/stream.h"

namespace tethys::cuda {
namespace {

class Convolution final : public ConvolutionPrimitive {
 public:
  Convolution(const Libraries& libraries, const ConvolutionShape& shape)
      : libraries_(libraries),
        shape_(shape),
        pixels_(shape.rows * shape.output().height * shape.output().width) {}

  absl::Status Initialize() {
    TETHYS_RETURN_IF_ERROR(CreatePlan(ConvolutionPass::kForward, forward_));
    TETHYS_RETURN_IF_ERROR(CreatePlan(ConvolutionPass::kData, data_));
    TETHYS_RETURN_IF_ERROR(CreatePlan(ConvolutionPass::kFilters, filters_));
    TETHYS_RETURN_IF_ERROR(images_operand_.Initialize(libraries_, shape_.rows * shape_.in.elements()));
    TETHYS_RETURN_IF_ERROR(filters_operand_.Initialize(libraries_, shape_.filters()));
    TETHYS_RETURN_IF_ERROR(outputs_operand_.Initialize(libraries_, pixels_ * shape_.out));
    return libraries_.workspace->Reserve(
        std::max({forward_->workspace_bytes(), data_->workspace_bytes(), filters_->workspace_bytes(),
                  ColumnSumScratch(pixels_, shape_.out) * static_cast<int64_t>(sizeof(float))}));
  }

  absl::Status Forward(Stream& stream, const void* x, const float* filters, const float* bias,
                       void* y) override {
    TETHYS_ASSIGN_OR_RETURN(const void* images, images_operand_.Read(stream, x));
    TETHYS_ASSIGN_OR_RETURN(const void* weights, filters_operand_.Read(stream, filters));
    TETHYS_RETURN_IF_ERROR(
        forward_->Run(stream, images, weights, outputs_operand_.Target(y), libraries_.workspace->data()));
    TETHYS_RETURN_IF_ERROR(outputs_operand_.Written(stream, y));
    if (shape_.has_bias) {
      TETHYS_RETURN_IF_CUDA_ERROR(
          AddBias(Handle(stream), libraries_.activations, pixels_, shape_.out, shape_.relu, bias, y));
    } else if (shape_.relu) {
      TETHYS_RETURN_IF_CUDA_ERROR(Activate(Handle(stream), libraries_.activations, ActivationFunction::kRelu,
                                           pixels_ * shape_.out, y, y));
    }
    return absl::OkStatus();
  }

  absl::Status Backward(Stream& stream, const void* x, const float* filters, const void* y, void* dy,
                        void* dx, float* dfilters, float* dbias) override {
    if (shape_.has_bias) {
      TETHYS_RETURN_IF_CUDA_ERROR(MaskAndSumColumns(Handle(stream), libraries_.activations, pixels_,
                                                    shape_.out, shape_.relu ? y : nullptr, dy, dbias,
                                                    libraries_.workspace->floats()));
    } else if (shape_.relu) {
      TETHYS_RETURN_IF_CUDA_ERROR(ActivateBackward(Handle(stream), libraries_.activations,
                                                   ActivationFunction::kRelu, pixels_ * shape_.out, y, dy,
                                                   dy));
    }
    TETHYS_ASSIGN_OR_RETURN(const void* outputs, outputs_operand_.Read(stream, dy));
    TETHYS_RETURN_IF_ERROR(RunFilters(stream, x, outputs, dfilters));
    return dx == nullptr ? absl::OkStatus() : RunData(stream, filters, outputs, dx);
  }

  absl::Status FilterGradient(Stream& stream, const void* x, const void* dy, float* dfilters,
                              float* dbias) override {
    if (shape_.has_bias) {
      // Without a mask, the gradients are only read.
      TETHYS_RETURN_IF_CUDA_ERROR(MaskAndSumColumns(Handle(stream), libraries_.activations, pixels_,
                                                    shape_.out, nullptr, const_cast<void*>(dy), dbias,
                                                    libraries_.workspace->floats()));
    }
    TETHYS_ASSIGN_OR_RETURN(const void* outputs, outputs_operand_.Read(stream, dy));
    return RunFilters(stream, x, outputs, dfilters);
  }

  absl::Status DataGradient(Stream& stream, const float* filters, const void* dy, void* dx) override {
    TETHYS_ASSIGN_OR_RETURN(const void* outputs, outputs_operand_.Read(stream, dy));
    return RunData(stream, filters, outputs, dx);
  }

  int64_t workspace_bytes() const override {
    return images_operand_.bytes() + filters_operand_.bytes() + outputs_operand_.bytes();
  }
  std::string Describe() const override {
    return absl::StrCat("forward cuDNN ", forward_->engine(), ", data cuDNN ", data_->engine(),
                        ", filters cuDNN ", filters_->engine());
  }

 private:
  // `outputs` are the gradients of the outputs, in the product's precision.
  absl::Status RunFilters(Stream& stream, const void* x, const void* outputs, float* dfilters) {
    TETHYS_ASSIGN_OR_RETURN(const void* images, images_operand_.Read(stream, x));
    TETHYS_RETURN_IF_ERROR(filters_->Run(stream, images, filters_operand_.Target(dfilters), outputs,
                                         libraries_.workspace->data()));
    return filters_operand_.Written(stream, dfilters);
  }
  absl::Status RunData(Stream& stream, const float* filters, const void* outputs, void* dx) {
    TETHYS_ASSIGN_OR_RETURN(const void* weights, filters_operand_.Read(stream, filters));
    TETHYS_RETURN_IF_ERROR(
        data_->Run(stream, images_operand_.Target(dx), weights, outputs, libraries_.workspace->data()));
    return images_operand_.Written(stream, dx);
  }
  absl::Status CreatePlan(ConvolutionPass pass, std::unique_ptr<ConvolutionPlan>& plan) {
    TETHYS_ASSIGN_OR_RETURN(
        plan, ConvolutionPlan::Create({.handle = libraries_.cudnn}, pass, shape_, libraries_.precision));
    return absl::OkStatus();
  }

  const Libraries libraries_;
  const ConvolutionShape shape_;
  const int64_t pixels_;  // Pixels of the output: rows x height x width.
  std::unique_ptr<ConvolutionPlan> forward_, data_, filters_;
  Operand images_operand_, filters_operand_, outputs_operand_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ConvolutionPrimitive>> CreateConvolution(const Libraries& libraries,
                                                                        const ConvolutionShape& shape) {
  auto convolution = std::make_unique<Convolution>(libraries, shape);
  TETHYS_RETURN_IF_ERROR(convolution->Initialize());
  return convolution;
}

}  // namespace tethys::cuda
