// Transposed convolution: computes the gradient of a convolution with respect to its input. Along each axis
//   y[i stride + k - padding] = sum over i and k of x[i] filters[k], plus bias
// with x [height, width, in], filters [in, kernel_size, kernel_size, out], bias [out] and y [., ., out]. The
// layer runs on the primitive of the convolution from y to x.
#include <utility>

#include "runtime/device/workspace_bounds.h"
#include "runtime/nn/layers/kinds.h"
#include "runtime/nn/layers/product.h"
#include "runtime/nn/layers/window.h"

namespace tethys {
namespace {

class CompiledTransposedConvolution final : public CompiledLayer {
 public:
  // `bias` is null if the layer has none.
  CompiledTransposedConvolution(std::unique_ptr<ConvolutionPrimitive> convolution,
                                std::unique_ptr<BiasPrimitive> bias,
                                absl::Span<const VariableMemory> variables)
      : convolution_(std::move(convolution)),
        add_bias_(std::move(bias)),
        filters_(variables[0]),
        bias_(variables.size() > 1 ? variables[1] : VariableMemory()) {}

  absl::Status Forward(Stream& stream, const ForwardTensors& tensors) override {
    TETHYS_RETURN_IF_ERROR(convolution_->DataGradient(stream, filters_.values, tensors.x[0], tensors.y));
    return add_bias_ == nullptr ? absl::OkStatus() : add_bias_->Forward(stream, bias_.values, tensors.y);
  }
  absl::Status Backward(Stream& stream, const BackwardTensors& tensors) override {
    TETHYS_RETURN_IF_ERROR(convolution_->FilterGradient(stream, tensors.dy, tensors.x[0],
                                                        filters_.gradient_sums, /*dbias=*/nullptr));
    if (add_bias_ != nullptr) {
      TETHYS_RETURN_IF_ERROR(add_bias_->Backward(stream, tensors.dy, bias_.gradient_sums));
    }
    if (tensors.dx[0] == nullptr) return absl::OkStatus();
    return convolution_->Forward(stream, tensors.dy, filters_.values, /*bias=*/nullptr, tensors.dx[0]);
  }
  int64_t workspace_bytes() const override { return convolution_->workspace_bytes(); }
  std::string Describe() const override { return absl::StrCat("transposed: ", convolution_->Describe()); }

 private:
  const std::unique_ptr<ConvolutionPrimitive> convolution_;
  const std::unique_ptr<BiasPrimitive> add_bias_;
  const VariableMemory filters_;
  const VariableMemory bias_;
};

class TransposedConvolutionOperation final : public Operation {
 public:
  // `row` is the shape of the convolution from the layer's output to the layer's input.
  TransposedConvolutionOperation(const ConvolutionShape& row, bool has_bias)
      : row_(row), has_bias_(has_bias) {}

  OperandUse operand_use() const override { return {.backward_reads_inputs = true}; }
  GpuNeeds gpu_needs(int64_t) const override {
    return {.most_shared_workspace = kMostConvolutionWorkspace, .copies_weights = true};
  }
  int64_t multiply_adds() const override { return row_.output().elements() * row_.filter_elements(); }
  std::string Describe() const override {
    return absl::StrCat("transposed convolution ", ImageText(row_.output()), " to ", ImageText(row_.in), ", ",
                        WindowText(row_.window));
  }
  absl::StatusOr<std::unique_ptr<CompiledLayer>> Compile(const CompileArguments& arguments) const override {
    ConvolutionShape shape = row_;
    shape.rows = arguments.rows;
    TETHYS_ASSIGN_OR_RETURN(auto convolution, arguments.device.Create(shape));
    std::unique_ptr<BiasPrimitive> bias;
    if (has_bias_) {
      const int64_t pixels = shape.rows * shape.in.height * shape.in.width;
      TETHYS_ASSIGN_OR_RETURN(bias, arguments.device.Create(BiasShape{pixels, shape.in.channels}));
    }
    return std::make_unique<CompiledTransposedConvolution>(std::move(convolution), std::move(bias),
                                                           arguments.variables);
  }

 private:
  const ConvolutionShape row_;
  const bool has_bias_;
};

constexpr NumberRule kNumbers[] = {
    {"filters", kRequired, From(1, 1 << 20)}, {"kernel_size", kRequired, From(1, 1 << 12)},
    {"stride", kUnset, From(1, 1 << 12)},     {"padding", proto::VALID, From(0, proto::Padding_MAX)},
    {"pad", kUnset, From(0, 1 << 12)},
};

void Complete(proto::Layer& layer) {
  proto::TransposedConvolution& fields = *layer.mutable_transposed_convolution();
  if (fields.initializer() == proto::INITIALIZER_DEFAULT) fields.set_initializer(proto::GLOROT_UNIFORM);
  if (!fields.has_stride()) fields.set_stride(1);
  if (!fields.has_bias()) fields.set_bias(true);
}

// The size of an axis of the output.
absl::StatusOr<int64_t> OutputAxis(const proto::TransposedConvolution& fields, int64_t in) {
  if (fields.has_pad() && fields.padding() == proto::SAME) {
    return absl::InvalidArgumentError("has both pad and padding: SAME; give one of them");
  }
  if (fields.padding() == proto::SAME) return in * fields.stride();
  if (fields.pad() < 0 || fields.pad() >= fields.kernel_size()) {
    return absl::InvalidArgumentError(absl::StrCat("pad is ", fields.pad(),
                                                   "; it must be at least 0 and less than the window of ",
                                                   fields.kernel_size()));
  }
  const int64_t out = (in - 1) * fields.stride() + fields.kernel_size() - 2 * fields.pad();
  if (out >= 1) return out;
  return absl::InvalidArgumentError(absl::StrCat("pad ", fields.pad(), " leaves nothing of the output of ",
                                                 out + 2 * fields.pad(), " pixels: use a smaller pad"));
}

absl::StatusOr<DefinedLayer> Define(const proto::Layer& layer, LayerScope& scope) {
  const proto::TransposedConvolution& fields = layer.transposed_convolution();
  TETHYS_ASSIGN_OR_RETURN(const ImageShape in, scope.InputImage("a transposed convolution"));
  const int64_t filters = fields.filters(), size = fields.kernel_size();
  TETHYS_RETURN_IF_ERROR(CheckPositive("filters", filters));
  TETHYS_RETURN_IF_ERROR(CheckPositive("the window's size", size));
  TETHYS_RETURN_IF_ERROR(CheckPositive("stride", fields.stride()));
  ImageShape out = {.channels = filters};
  TETHYS_ASSIGN_OR_RETURN(out.height, OutputAxis(fields, in.height));
  TETHYS_ASSIGN_OR_RETURN(out.width, OutputAxis(fields, in.width));
  WindowFields window = {.size = size, .stride = fields.stride(), .padding = fields.padding()};
  if (fields.has_pad()) window.pad = fields.pad();
  ConvolutionShape row = {.rows = 1, .in = out, .out = in.channels, .window = {}, .has_bias = false};
  TETHYS_ASSIGN_OR_RETURN(row.window, MakeWindow(out, window));
  TETHYS_CHECK(row.output() == in, "a transposed convolution of ", ImageText(in), " to ", ImageText(out));
  TETHYS_RETURN_IF_ERROR(AddWeightsAndBias(scope, "filters", {in.channels, size, size, filters},
                                           "in,height,width,out", fields.initializer(), in.channels, filters,
                                           fields.bias()));
  return DefinedLayer{.output = ShapeOf(out),
                      .operation = std::make_shared<TransposedConvolutionOperation>(row, fields.bias())};
}

std::string Text(const proto::Layer& layer) {
  const proto::TransposedConvolution& fields = layer.transposed_convolution();
  return absl::StrCat("transposed convolution ", fields.filters(), " of ", fields.kernel_size(), " x ",
                      fields.kernel_size(), " / ", fields.stride());
}

int64_t SmallestVariable(const proto::Layer& layer) {
  const proto::TransposedConvolution& fields = layer.transposed_convolution();
  return fields.bias() ? fields.filters() : 0;
}

}  // namespace

const LayerKind kTransposedConvolutionKind = {.numbers = kNumbers,
                                              .complete = Complete,
                                              .define = Define,
                                              .text = Text,
                                              .smallest_variable = SmallestVariable};

}  // namespace tethys
