// Dense: y = activation(x W + b) for each row; x is [in], W is [in, out], b and y are [out].
#include "runtime/device/workspace_bounds.h"
#include "runtime/nn/layers/kinds.h"
#include "runtime/nn/layers/product.h"
#include "runtime/nn/layers/window.h"

namespace tethys {
namespace {

class DenseOperation final : public Operation {
 public:
  explicit DenseOperation(const DenseShape& row) : row_(row) {}

  OperandUse operand_use() const override {
    return {.backward_reads_inputs = true, .backward_reads_output = row_.relu};
  }
  GpuNeeds gpu_needs(int64_t) const override {
    return {.most_shared_workspace = kMostDenseWorkspace, .copies_weights = true};
  }
  int64_t multiply_adds() const override { return row_.in * row_.out; }
  std::string Describe() const override {
    return absl::StrCat("dense ", row_.in, " x ", row_.out, row_.relu ? " relu" : "");
  }
  absl::StatusOr<std::unique_ptr<CompiledLayer>> Compile(const CompileArguments& arguments) const override {
    DenseShape shape = row_;
    shape.rows = arguments.rows;
    TETHYS_ASSIGN_OR_RETURN(auto primitive, arguments.device.Create(shape));
    return std::make_unique<CompiledProduct<DensePrimitive>>(std::move(primitive), 0, arguments.variables);
  }

 private:
  const DenseShape row_;
};

constexpr NumberRule kNumbers[] = {
    {"units", kRequired, From(1, 1 << 24)},
    {"activation", proto::ACTIVATION_NONE, From(0, proto::Activation_MAX)},
};

void Complete(proto::Layer& layer) { CompleteInitializer(*layer.mutable_dense()); }

absl::StatusOr<DefinedLayer> Define(const proto::Layer& layer, LayerScope& scope) {
  const proto::Dense& dense = layer.dense();
  if (scope.input().size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("its input has shape ", ShapeText(scope.input()),
                     ", but a dense layer needs one axis: put a flatten layer before this layer"));
  }
  const int64_t in = scope.input()[0], out = dense.units();
  TETHYS_RETURN_IF_ERROR(CheckPositive("units", out));
  TETHYS_RETURN_IF_ERROR(
      AddWeightsAndBias(scope, "weights", {in, out}, "in,out", dense.initializer(), in, out));
  const DenseShape row = {.rows = 1, .in = in, .out = out, .relu = dense.activation() == proto::RELU};
  return DefinedLayer{.output = {out},
                      .operation = std::make_shared<DenseOperation>(row),
                      .activation = BeyondRelu(dense.activation())};
}

std::string Text(const proto::Layer& layer) {
  return absl::StrCat("dense ", layer.dense().units(), ActivationSuffix(layer.dense().activation()));
}

int64_t SmallestVariable(const proto::Layer& layer) { return layer.dense().units(); }

}  // namespace

const LayerKind kDenseKind = {.numbers = kNumbers,
                              .complete = Complete,
                              .define = Define,
                              .text = Text,
                              .smallest_variable = SmallestVariable};

}  // namespace tethys
