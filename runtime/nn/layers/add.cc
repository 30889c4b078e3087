#include <utility>

#include "runtime/nn/layers/kinds.h"

namespace tethys {
namespace {

class CompiledAdd final : public CompiledLayer {
 public:
  explicit CompiledAdd(std::unique_ptr<SumPrimitive> sum) : sum_(std::move(sum)) {}

  absl::Status Forward(Stream& stream, const ForwardTensors& tensors) override {
    const absl::Span<const float* const> x = tensors.x;
    TETHYS_RETURN_IF_ERROR(sum_->Run(stream, x[0], x[1], tensors.y));
    for (size_t i = 2; i < x.size(); ++i)
      TETHYS_RETURN_IF_ERROR(sum_->Run(stream, tensors.y, x[i], tensors.y));
    return absl::OkStatus();
  }
  absl::Status Backward(Stream&, const BackwardTensors&) override { return absl::OkStatus(); }

 private:
  const std::unique_ptr<SumPrimitive> sum_;
};

class AddOperation final : public Operation {
 public:
  AddOperation(Shape row, size_t inputs, int64_t elements)
      : row_(std::move(row)), inputs_(inputs), elements_(elements) {}

  OperandUse operand_use() const override { return {.overwrites_input = true, .passes_gradient = true}; }
  std::string Describe() const override { return absl::StrCat("add ", inputs_, " of ", ShapeText(row_)); }
  absl::StatusOr<std::unique_ptr<CompiledLayer>> Compile(const CompileArguments& arguments) const override {
    TETHYS_ASSIGN_OR_RETURN(auto sum, arguments.device.CreateSum(arguments.rows * elements_));
    return std::make_unique<CompiledAdd>(std::move(sum));
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
                     ", but add needs inputs of one shape; of images, a convolution of size 1 changes the "
                     "channels and, by its stride, height and width"));
  }
  TETHYS_ASSIGN_OR_RETURN(const int64_t elements, ElementCount(scope.input()));
  return DefinedLayer{
      .output = scope.input(),
      .operation = std::make_shared<AddOperation>(scope.input(), scope.inputs().size(), elements)};
}

std::string Text(const proto::Layer& layer) { return absl::StrCat("add ", layer.input_size()); }

}  // namespace

const LayerKind kAddKind = {
    .kind = proto::Layer::kAdd, .most_inputs = kManyInputs, .define = Define, .text = Text};

}  // namespace tethys
