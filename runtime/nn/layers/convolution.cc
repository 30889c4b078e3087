// Convolution: y = activation(x * filters + bias), where * is cross-correlation. x is [height, width, in],
// filters are [out, kernel_size, kernel_size, in / groups], bias is [out], and y is [., ., out] with
// (size + padding - (kernel_size - 1) dilation - 1) / stride + 1 positions, rounded down, along each axis.
#include "runtime/device/workspace_bounds.h"
#include "runtime/nn/layers/kinds.h"
#include "runtime/nn/layers/product.h"
#include "runtime/nn/layers/window.h"

namespace tethys {
namespace {

class ConvolutionOperation final : public Operation {
 public:
  explicit ConvolutionOperation(const ConvolutionShape& row) : row_(row) {}

  OperandUse operand_use() const override {
    return {.backward_reads_inputs = true, .backward_reads_output = row_.relu};
  }
  GpuNeeds gpu_needs(int64_t) const override {
    return {.most_shared_workspace = kMostConvolutionWorkspace, .copies_weights = true};
  }
  // Counts the multiplications with padding too, as is usual.
  int64_t multiply_adds() const override { return row_.output().elements() * row_.filter_elements(); }
  std::string Describe() const override {
    return absl::StrCat(
        "convolution ", ImageText(row_.in), " to ", ImageText(row_.output()), ", ", WindowText(row_.window),
        row_.groups > 1 ? absl::StrCat(", ", row_.groups, " groups") : "", row_.relu ? " relu" : "");
  }
  absl::StatusOr<std::unique_ptr<CompiledLayer>> Compile(const CompileArguments& arguments) const override {
    ConvolutionShape shape = row_;
    shape.rows = arguments.rows;
    TETHYS_ASSIGN_OR_RETURN(auto primitive, arguments.device.Create(shape));
    const int64_t workspace_bytes = primitive->workspace_bytes();
    return std::make_unique<CompiledProduct<ConvolutionPrimitive>>(std::move(primitive), workspace_bytes,
                                                                   arguments.variables);
  }

 private:
  const ConvolutionShape row_;
};

constexpr NumberRule kNumbers[] = {
    {"filters", kRequired, From(1, 1 << 20)},
    {"kernel_size", kRequired, From(1, 1 << 12)},
    {"stride", kUnset, From(1, 1 << 12)},
    {"padding", proto::VALID, From(0, proto::Padding_MAX)},
    {"pad", kUnset, From(0, 1 << 12)},
    {"dilation", kUnset, From(1, 1 << 12)},
    {"groups", kUnset, From(1, 1 << 20)},
    {"activation", proto::ACTIVATION_NONE, From(0, proto::Activation_MAX)},
};

void Complete(proto::Layer& layer) {
  proto::Convolution& convolution = *layer.mutable_convolution();
  CompleteInitializer(convolution);
  if (!convolution.has_stride()) convolution.set_stride(1);
  if (!convolution.has_dilation()) convolution.set_dilation(1);
  if (!convolution.has_groups()) convolution.set_groups(1);
  if (!convolution.has_bias()) convolution.set_bias(true);
}

absl::StatusOr<DefinedLayer> Define(const proto::Layer& layer, LayerScope& scope) {
  const proto::Convolution& convolution = layer.convolution();
  TETHYS_ASSIGN_OR_RETURN(const ImageShape in, scope.InputImage("a convolution"));
  const int64_t out = convolution.filters(), size = convolution.kernel_size();
  const int64_t groups = convolution.groups();
  TETHYS_RETURN_IF_ERROR(CheckPositive("filters", out));
  if (groups < 1 || in.channels % groups != 0 || out % groups != 0) {
    return absl::InvalidArgumentError(absl::StrCat("groups is ", groups, ", which does not divide both the ",
                                                   in.channels, " channels of its input and its ", out,
                                                   " filters"));
  }
  WindowFields fields = {.size = size,
                         .stride = convolution.stride(),
                         .dilation = convolution.dilation(),
                         .padding = convolution.padding()};
  if (convolution.has_pad()) fields.pad = convolution.pad();
  TETHYS_ASSIGN_OR_RETURN(const Window window, MakeWindow(in, fields));
  const int64_t in_group = in.channels / groups;
  TETHYS_RETURN_IF_ERROR(AddWeightsAndBias(scope, "filters", {out, size, size, in_group},
                                           "out,height,width,in", convolution.initializer(), in_group, out,
                                           convolution.bias()));
  const ConvolutionShape row = {.rows = 1,
                                .in = in,
                                .out = out,
                                .window = window,
                                .relu = convolution.activation() == proto::RELU,
                                .groups = groups,
                                .has_bias = convolution.bias()};
  return DefinedLayer{.output = ShapeOf(row.output()),
                      .operation = std::make_shared<ConvolutionOperation>(row),
                      .activation = BeyondRelu(convolution.activation())};
}

std::string Text(const proto::Layer& layer) {
  const proto::Convolution& convolution = layer.convolution();
  return absl::StrCat("convolution ", convolution.filters(), " of ", convolution.kernel_size(), " x ",
                      convolution.kernel_size(), ActivationSuffix(convolution.activation()));
}

int64_t SmallestVariable(const proto::Layer& layer) { return layer.convolution().filters(); }

}  // namespace

const LayerKind kConvolutionKind = {.numbers = kNumbers,
                                    .complete = Complete,
                                    .define = Define,
                                    .text = Text,
                                    .smallest_variable = SmallestVariable};

}  // namespace tethys
