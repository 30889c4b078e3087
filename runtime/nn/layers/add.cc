// Add: y = x_1 + x_2 + ... + x_n, element by element. The inputs and the output have one shape. Each dx_i
// equals dy, so backward does no work (OperandUse::passes_gradient).
#include <utility>

#include "runtime/nn/layers/kinds.h"

namespace tethys {
namespace {

class CompiledAdd final : public CompiledLayer {
 public:
  CompiledAdd(std::unique_ptr<SumPrimitive> sum, std::unique_ptr<SumPrimitive> last, bool relu)
      : sum_(std::move(sum)), last_(std::move(last)), relu_(relu) {}

  absl::Status Forward(Stream& stream, const ForwardTensors& tensors) override {
    const void* sum = tensors.x[0];
    for (size_t i = 1; i < tensors.x.size(); ++i) {
      SumPrimitive& primitive = i + 1 < tensors.x.size() ? *sum_ : *last_;
      TETHYS_RETURN_IF_ERROR(primitive.Run(stream, sum, tensors.x[i], tensors.y));
      sum = tensors.y;
    }
    return absl::OkStatus();
  }
  absl::Status Backward(Stream&, const BackwardTensors&) override { return absl::OkStatus(); }
  std::string Describe() const override { return relu_ ? "with relu" : ""; }

 private:
  const std::unique_ptr<SumPrimitive> sum_;
  const std::unique_ptr<SumPrimitive> last_;  // Adds the last input; applies the relu, if there is one.
  const bool relu_;
};

class AddOperation final : public Operation {
 public:
  AddOperation(Shape row, size_t inputs, int64_t elements)
      : row_(std::move(row)), inputs_(inputs), elements_(elements) {}

  OperandUse operand_use() const override {
    return {.repeatable = true, .overwrites_input = true, .passes_gradient = true, .applies_relu = true};
  }
  std::string Describe() const override { return absl::StrCat("add ", inputs_, " of ", ShapeText(row_)); }
  absl::StatusOr<std::unique_ptr<CompiledLayer>> Compile(const CompileArguments& arguments) const override {
    SumShape shape = {.count = arguments.rows * elements_, .type = arguments.device.activation_type()};
    TETHYS_ASSIGN_OR_RETURN(auto sum, arguments.device.Create(shape));
    shape.relu = arguments.relu;
    TETHYS_ASSIGN_OR_RETURN(auto last, arguments.device.Create(shape));
    return std::make_unique<CompiledAdd>(std::move(sum), std::move(last), arguments.relu);
  }

 private:
  const Shape row_;
  const size_t inputs_;
  const int64_t elements_;
};

absl::StatusOr<DefinedLayer> Define(const proto::Layer&, LayerScope& scope) {
  TETHYS_RETURN_IF_ERROR(scope.CheckSeveralInputs("add"));
  for (const Shape& shape : scope.inputs()) {
    if (shape == scope.input()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("its inputs have shapes ", ShapeText(scope.input()), " and ", ShapeText(shape),
                     ", but add needs inputs of one shape; for images, a convolution of size 1 changes the "
                     "channels and, by its stride, height and width"));
  }
  TETHYS_ASSIGN_OR_RETURN(const int64_t elements, ElementCount(scope.input()));
  return DefinedLayer{
      .output = scope.input(),
      .operation = std::make_shared<AddOperation>(scope.input(), scope.inputs().size(), elements)};
}

std::string Text(const proto::Layer& layer) { return absl::StrCat("add ", layer.input_size()); }

}  // namespace

const LayerKind kAddKind = {.most_inputs = kManyInputs, .define = Define, .text = Text};

}  // namespace tethys
