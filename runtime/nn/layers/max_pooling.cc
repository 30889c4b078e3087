// Max pooling: y[i, j, c] = the largest x[., ., c] in window (i, j); x is [height, width, channels], and
// padding is never the largest. Backward adds dy[i, j, c] to the dx of one largest element of the window.
#include <utility>

#include "runtime/nn/layers/kinds.h"
#include "runtime/nn/layers/window.h"

namespace tethys {
namespace {

class CompiledMaxPooling final : public CompiledLayer {
 public:
  explicit CompiledMaxPooling(std::unique_ptr<MaxPoolingPrimitive> primitive)
      : primitive_(std::move(primitive)) {}

  absl::Status Forward(Stream& stream, const ForwardTensors& tensors) override {
    return primitive_->Forward(stream, tensors.x[0], tensors.y);
  }
  absl::Status Backward(Stream& stream, const BackwardTensors& tensors) override {
    return primitive_->Backward(stream, tensors.x[0], tensors.y, tensors.dy, tensors.dx[0]);
  }
  int64_t workspace_bytes() const override { return primitive_->workspace_bytes(); }

 private:
  const std::unique_ptr<MaxPoolingPrimitive> primitive_;
};

class MaxPoolingOperation final : public Operation {
 public:
  explicit MaxPoolingOperation(const MaxPoolingShape& row) : row_(row) {}

  OperandUse operand_use() const override {
    return {.backward_reads_inputs = true, .backward_reads_output = true, .repeatable = true};
  }
  std::string Describe() const override {
    return absl::StrCat("max pooling ", ImageText(row_.in), " to ", ImageText(row_.output()), ", ",
                        WindowText(row_.window));
  }
  absl::StatusOr<std::unique_ptr<CompiledLayer>> Compile(const CompileArguments& arguments) const override {
    MaxPoolingShape shape = row_;
    shape.rows = arguments.rows;
    TETHYS_ASSIGN_OR_RETURN(auto primitive, arguments.device.Create(shape));
    return std::make_unique<CompiledMaxPooling>(std::move(primitive));
  }

 private:
  const MaxPoolingShape row_;
};

constexpr NumberRule kNumbers[] = {
    {"size", kUnset, From(1, 1 << 12)},
    {"stride", kUnset, From(1, 1 << 12)},
    {"padding", proto::VALID, From(0, proto::Padding_MAX)},
    {"pad", kUnset, From(0, 1 << 12)},
};

void Complete(proto::Layer& layer) { CompleteWindow(*layer.mutable_max_pooling()); }

absl::StatusOr<DefinedLayer> Define(const proto::Layer& layer, LayerScope& scope) {
  const proto::MaxPooling& pooling = layer.max_pooling();
  TETHYS_ASSIGN_OR_RETURN(const ImageShape in, scope.InputImage("max pooling"));
  TETHYS_ASSIGN_OR_RETURN(const Window window, MakeWindow(in, PoolingFields(pooling)));
  const MaxPoolingShape row = {.rows = 1, .in = in, .window = window};
  return DefinedLayer{.output = ShapeOf(row.output()),
                      .operation = std::make_shared<MaxPoolingOperation>(row)};
}

std::string Text(const proto::Layer& layer) {
  return absl::StrCat("max pooling ", layer.max_pooling().size());
}

}  // namespace

const LayerKind kMaxPoolingKind = {.numbers = kNumbers, .complete = Complete, .define = Define, .text = Text};

}  // namespace tethys
