// Batch normalisation (Ioffe and Szegedy, ICML 2015), for each channel c:
//   y[., c] = activation((x[., c] - mean[c]) / sqrt(variance[c] + epsilon) * scale[c] + offset[c])
// x and y are [..., channels], or [height, width] with one channel. Mean and variance are the batch's in
// training; in evaluations, and in frozen layers, they are the moving statistics.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/device/workspace_bounds.h"
#include "runtime/nn/layers/activation.h"
#include "runtime/nn/layers/kinds.h"

namespace tethys {
namespace {

class CompiledBatchNormalisation final : public CompiledLayer {
 public:
  CompiledBatchNormalisation(std::unique_ptr<BatchNormalisationPrimitive> primitive,
                             const CompileArguments& arguments)
      : primitive_(std::move(primitive)),
        trains_(arguments.trains),
        step_(arguments.step),
        scale_(arguments.variables[0]),
        offset_(arguments.variables[1]),
        moving_mean_(arguments.statistics[0]),
        moving_variance_(arguments.statistics[1]) {}

  absl::Status Forward(Stream& stream, const ForwardTensors& tensors) override {
    if (trains_) {
      return primitive_->Forward(stream, tensors.x[0], tensors.row_weights, variables(), tensors.y);
    }
    return primitive_->Infer(stream, tensors.x[0], moving_mean_, moving_variance_, variables(), tensors.y);
  }
  absl::Status Repeat(Stream& stream, const ForwardTensors& tensors) override {
    if (!trains_) return Forward(stream, tensors);
    return primitive_->Repeat(stream, tensors.x[0], variables(), tensors.y);
  }
  absl::Status Backward(Stream& stream, const BackwardTensors& tensors) override {
    return primitive_->Backward(stream, tensors.x[0], variables(), tensors.dy, tensors.dx[0],
                                scale_.gradient_sums, offset_.gradient_sums);
  }
  absl::Status UpdateStatistics(Stream& stream, const int32_t* refused, int64_t offset) override {
    return primitive_->UpdateMovingStatistics(stream, &step_->statistics_share, refused,
                                              moving_mean_ + offset, moving_variance_ + offset);
  }
  int64_t workspace_bytes() const override { return primitive_->workspace_bytes(); }

 private:
  ScaleAndOffset variables() const { return {scale_.values, offset_.values}; }

  const std::unique_ptr<BatchNormalisationPrimitive> primitive_;
  const bool trains_;
  const StepNumbers* const step_;
  const VariableMemory scale_;
  const VariableMemory offset_;
  float* const moving_mean_;
  float* const moving_variance_;
};

class BatchNormalisationOperation final : public Operation {
 public:
  explicit BatchNormalisationOperation(const BatchNormalisationShape& row) : row_(row) {}

  // Forward may overwrite the input only in an evaluation, because in training backward reads the input.
  OperandUse operand_use() const override {
    return {.backward_reads_inputs = true,
            .repeatable = true,
            .overwrites_input = true,
            .overwrites_gradient = true};
  }
  GpuNeeds gpu_needs(int64_t groups) const override {
    return {.most_workspace = MostNormalisationWorkspace(groups, row_.channels)};
  }
  bool uses_step_numbers() const override { return true; }
  // If a sample has one value for each channel, a batch needs two samples: the mean of a single value would
  // be the value itself.
  int64_t least_samples() const override { return row_.positions == 1 ? 2 : 1; }
  std::string Describe() const override {
    return absl::StrCat("batch normalisation of ", row_.positions, " x ", row_.channels,
                        row_.relu ? " relu" : "");
  }
  absl::StatusOr<std::unique_ptr<CompiledLayer>> Compile(const CompileArguments& arguments) const override {
    BatchNormalisationShape shape = row_;
    shape.rows = arguments.rows;
    shape.groups = arguments.trains ? arguments.groups : 1;
    shape.later_part = arguments.later_part;
    shape.sums = arguments.trains ? arguments.sums : nullptr;
    TETHYS_ASSIGN_OR_RETURN(auto primitive, arguments.device.Create(shape));
    return std::make_unique<CompiledBatchNormalisation>(std::move(primitive), arguments);
  }

 private:
  const BatchNormalisationShape row_;
};

constexpr NumberRule kNumbers[] = {
    {"decay", kUnset, Between(0, 1)},
    {"epsilon", kUnset, Above(0, 1)},
    {"activation", proto::ACTIVATION_NONE, From(0, proto::Activation_MAX)},
};

void Complete(proto::Layer& layer) {
  proto::BatchNormalisation& normalisation = *layer.mutable_batch_normalisation();
  if (!normalisation.has_decay()) normalisation.set_decay(0.9);
  if (!normalisation.has_epsilon()) normalisation.set_epsilon(1e-5);
}

absl::StatusOr<DefinedLayer> Define(const proto::Layer& layer, LayerScope& scope) {
  const proto::BatchNormalisation& normalisation = layer.batch_normalisation();
  const Shape& in = scope.input();
  if (in.empty()) return absl::InvalidArgumentError("its input has no axis of channels");
  // Images of shape [height, width] have one channel.
  const int64_t channels = in.size() == 2 ? 1 : in.back();
  TETHYS_ASSIGN_OR_RETURN(const int64_t elements, ElementCount(in));
  const BatchNormalisationShape row = {.rows = 1,
                                       .positions = elements / channels,
                                       .channels = channels,
                                       .epsilon = static_cast<float>(normalisation.epsilon()),
                                       .decay = static_cast<float>(normalisation.decay()),
                                       .relu = normalisation.activation() == proto::RELU};
  TETHYS_RETURN_IF_ERROR(CheckShape(row));
  TETHYS_RETURN_IF_ERROR(
      scope.AddVariable("scale", {channels}, "channels", InitialValue::kOnes, channels, channels));
  TETHYS_RETURN_IF_ERROR(
      scope.AddVariable("offset", {channels}, "channels", InitialValue::kZeros, channels, channels));
  TETHYS_RETURN_IF_ERROR(scope.AddStatistic("moving_mean", channels, InitialValue::kZeros));
  TETHYS_RETURN_IF_ERROR(scope.AddStatistic("moving_variance", channels, InitialValue::kOnes));
  return DefinedLayer{.output = in,
                      .operation = std::make_shared<BatchNormalisationOperation>(row),
                      .activation = BeyondRelu(normalisation.activation())};
}

std::string Text(const proto::Layer& layer) {
  return absl::StrCat("batch normalisation", ActivationSuffix(layer.batch_normalisation().activation()));
}

}  // namespace

const LayerKind kBatchNormalisationKind = {
    .numbers = kNumbers, .complete = Complete, .define = Define, .text = Text};

}  // namespace tethys
