// Convolutions: each of the three passes has a plan of its own (convolution_plan.h); bias, relu, the backward
// mask of relu and the bias gradient run on our own kernels.
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
    TETHYS_RETURN_IF_ERROR(filters_operand_.Initialize(libraries_, shape_.filters()));
    return libraries_.workspace->Reserve(
        std::max({forward_->workspace_bytes(), data_->workspace_bytes(), filters_->workspace_bytes(),
                  ColumnSumScratch(pixels_, shape_.out) * static_cast<int64_t>(sizeof(float))}));
  }

  absl::Status Forward(Stream& stream, const void* x, const float* filters, const float* bias,
                       void* y) override {
    TETHYS_ASSIGN_OR_RETURN(const void* weights, Filters(*forward_, stream, filters));
    TETHYS_RETURN_IF_ERROR(forward_->Run(stream, x, weights, y, libraries_.workspace->data()));
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
    TETHYS_RETURN_IF_ERROR(RunFilters(stream, x, dy, dfilters));
    return dx == nullptr ? absl::OkStatus() : DataGradient(stream, filters, dy, dx);
  }

  absl::Status FilterGradient(Stream& stream, const void* x, const void* dy, float* dfilters,
                              float* dbias) override {
    if (shape_.has_bias) {
      // Without a mask, the kernels only read the gradients.
      TETHYS_RETURN_IF_CUDA_ERROR(MaskAndSumColumns(Handle(stream), libraries_.activations, pixels_,
                                                    shape_.out, nullptr, const_cast<void*>(dy), dbias,
                                                    libraries_.workspace->floats()));
    }
    return RunFilters(stream, x, dy, dfilters);
  }

  absl::Status DataGradient(Stream& stream, const float* filters, const void* dy, void* dx) override {
    TETHYS_ASSIGN_OR_RETURN(const void* weights, Filters(*data_, stream, filters));
    return data_->Run(stream, dx, weights, dy, libraries_.workspace->data());
  }

  int64_t workspace_bytes() const override { return filters_operand_.bytes(); }
  std::string Describe() const override {
    return absl::StrCat("forward ", forward_->Describe(), ", data ", data_->Describe(), ", filters ",
                        filters_->Describe());
  }

 private:
  // The filters in the form that the plan reads.
  absl::StatusOr<const void*> Filters(const ConvolutionPlan& plan, Stream& stream, const float* filters) {
    if (plan.filters_in_float32()) return filters;
    return filters_operand_.Read(stream, filters);
  }
  absl::Status RunFilters(Stream& stream, const void* x, const void* dy, float* dfilters) {
    if (filters_->filters_in_float32()) {
      return filters_->Run(stream, x, dfilters, dy, libraries_.workspace->data());
    }
    TETHYS_RETURN_IF_ERROR(
        filters_->Run(stream, x, filters_operand_.Target(dfilters), dy, libraries_.workspace->data()));
    return filters_operand_.Written(stream, dfilters);
  }
  absl::Status CreatePlan(ConvolutionPass pass, std::unique_ptr<ConvolutionPlan>& plan) {
    if (IsSmall(shape_)) {
      plan = CreateSmall(libraries_.activations, pass, shape_);
      return absl::OkStatus();
    }
    if (IsLowered(pass, shape_, libraries_.precision)) {
      auto lowered = CreateLowered(libraries_, pass, shape_);
      if (lowered.ok()) plan = *std::move(lowered);
      if (!absl::IsUnimplemented(lowered.status())) return lowered.status();
    }
    TETHYS_ASSIGN_OR_RETURN(
        plan, CreateCudnnPlan({.handle = libraries_.cudnn}, pass, shape_, libraries_.precision));
    return absl::OkStatus();
  }

  const Libraries libraries_;
  const ConvolutionShape shape_;
  const int64_t pixels_;  // Pixels of the output: rows x height x width.
  std::unique_ptr<ConvolutionPlan> forward_, data_, filters_;
  Operand filters_operand_;
};

}  // namespace

Created<ConvolutionShape> Create(const ConvolutionShape& shape, const Libraries& libraries) {
  auto convolution = std::make_unique<Convolution>(libraries, shape);
  TETHYS_RETURN_IF_ERROR(convolution->Initialize());
  return convolution;
}

}  // namespace tethys::cuda
