// Average pooling: y[i, j, c] = the mean of x[., ., c] in window (i, j); x is [height, width, channels].
// Padding counts only with count_padding. Global average pooling has one window, the whole image, so y is
// [channels].
#include <utility>

#include "runtime/nn/layers/kinds.h"
#include "runtime/nn/layers/window.h"

namespace tethys {
namespace {

class CompiledAveragePooling final : public CompiledLayer {
 public:
  explicit CompiledAveragePooling(std::unique_ptr<AveragePoolingPrimitive> primitive)
      : primitive_(std::move(primitive)) {}

  absl::Status Forward(Stream& stream, const ForwardTensors& tensors) override {
    return primitive_->Forward(stream, tensors.x[0], tensors.y);
  }
  absl::Status Backward(Stream& stream, const BackwardTensors& tensors) override {
    return primitive_->Backward(stream, tensors.dy, tensors.dx[0]);
  }

 private:
  const std::unique_ptr<AveragePoolingPrimitive> primitive_;
};

class AveragePoolingOperation final : public Operation {
 public:
  explicit AveragePoolingOperation(const AveragePoolingShape& row) : row_(row) {}

  OperandUse operand_use() const override { return {.repeatable = true}; }
  std::string Describe() const override {
    return absl::StrCat("average pooling ", ImageText(row_.in), " to ", ImageText(row_.output()), ", ",
                        WindowText(row_.window));
  }
  absl::StatusOr<std::unique_ptr<CompiledLayer>> Compile(const CompileArguments& arguments) const override {
    AveragePoolingShape shape = row_;
    shape.rows = arguments.rows;
    TETHYS_ASSIGN_OR_RETURN(auto primitive, arguments.device.Create(shape));
    return std::make_unique<CompiledAveragePooling>(std::move(primitive));
  }

 private:
  const AveragePoolingShape row_;
};

constexpr NumberRule kNumbers[] = {
    {"pad", kUnset, From(0, 1 << 12)},    {"size", kUnset, From(1, 1 << 12)},
    {"stride", kUnset, From(1, 1 << 12)}, {"padding", proto::VALID, From(0, proto::Padding_MAX)},
    {"count_padding", 0, From(0, 1)},
};

void Complete(proto::Layer& layer) { CompleteWindow(*layer.mutable_average_pooling()); }

absl::StatusOr<DefinedLayer> Define(const proto::Layer& layer, LayerScope& scope) {
  const proto::AveragePooling& pooling = layer.average_pooling();
  TETHYS_ASSIGN_OR_RETURN(const ImageShape in, scope.InputImage("average pooling"));
  TETHYS_ASSIGN_OR_RETURN(const Window window, MakeWindow(in, PoolingFields(pooling)));
  const AveragePoolingShape row = {
      .rows = 1, .in = in, .window = window, .count_padding = pooling.count_padding()};
  return DefinedLayer{.output = ShapeOf(row.output()),
                      .operation = std::make_shared<AveragePoolingOperation>(row)};
}

std::string Text(const proto::Layer& layer) {
  return absl::StrCat("average pooling ", layer.average_pooling().size());
}

absl::StatusOr<DefinedLayer> DefineGlobal(const proto::Layer&, LayerScope& scope) {
  TETHYS_ASSIGN_OR_RETURN(const ImageShape in, scope.InputImage("global average pooling"));
  const AveragePoolingShape row = {
      .rows = 1, .in = in, .window = {.height = {.size = in.height}, .width = {.size = in.width}}};
  return DefinedLayer{.output = {in.channels}, .operation = std::make_shared<AveragePoolingOperation>(row)};
}

std::string GlobalText(const proto::Layer&) { return "global average pooling"; }

}  // namespace

const LayerKind kAveragePoolingKind = {
    .numbers = kNumbers, .complete = Complete, .define = Define, .text = Text};

const LayerKind kGlobalAveragePoolingKind = {.define = DefineGlobal, .text = GlobalText};

}  // namespace tethys
