// Dropout: Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting", JMLR 2014.
// In training y = x kept / (1 - rate) and dx = dy kept / (1 - rate), element by element, where `kept` is 0
// with probability `rate` and 1 otherwise. In evaluations y = x. x and y have one shape.
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "runtime/base/random.h"
#include "runtime/nn/layers/kinds.h"

namespace tethys {
namespace {

class CompiledDropout final : public CompiledLayer {
 public:
  CompiledDropout(std::unique_ptr<DropoutPrimitive> primitive, const uint64_t* first_sample)
      : primitive_(std::move(primitive)), first_sample_(first_sample) {}

  absl::Status Forward(Stream& stream, const ForwardTensors& tensors) override {
    return primitive_->Run(stream, first_sample_, tensors.x[0], tensors.y);
  }
  // Draws the same random numbers as forward.
  absl::Status Backward(Stream& stream, const BackwardTensors& tensors) override {
    return primitive_->Run(stream, first_sample_, tensors.dy, tensors.dx[0]);
  }

 private:
  const std::unique_ptr<DropoutPrimitive> primitive_;
  const uint64_t* const first_sample_;
};

// Dropout in an evaluation: the output is the input.
class CompiledIdentity final : public CompiledLayer {
 public:
  CompiledIdentity(Device& device, int64_t elements)
      : device_(device), bytes_(elements * BytesOf(device.activation_type())) {}

  absl::Status Forward(Stream& stream, const ForwardTensors& tensors) override {
    if (tensors.y == tensors.x[0]) return absl::OkStatus();
    return device_.CopyOnDevice(stream, tensors.y, tensors.x[0], bytes_);
  }
  absl::Status Backward(Stream&, const BackwardTensors&) override {
    return absl::FailedPreconditionError("a plan that evaluates has no gradients");
  }

 private:
  Device& device_;
  const int64_t bytes_;
};

class DropoutOperation final : public Operation {
 public:
  DropoutOperation(int64_t elements, float rate, uint64_t layer)
      : elements_(elements), rate_(rate), layer_(layer) {}

  OperandUse operand_use() const override {
    return {.repeatable = true, .overwrites_input = true, .overwrites_gradient = true};
  }
  bool uses_step_numbers() const override { return true; }
  std::string Describe() const override { return absl::StrFormat("dropout %.9g of %d", rate_, elements_); }
  absl::StatusOr<std::unique_ptr<CompiledLayer>> Compile(const CompileArguments& arguments) const override {
    if (!arguments.trains) {
      return std::make_unique<CompiledIdentity>(arguments.device, arguments.rows * elements_);
    }
    TETHYS_ASSIGN_OR_RETURN(auto primitive, arguments.device.Create(DropoutShape{.rows = arguments.rows,
                                                                                 .elements = elements_,
                                                                                 .rate = rate_,
                                                                                 .seed = arguments.seed,
                                                                                 .layer = layer_}));
    return std::make_unique<CompiledDropout>(std::move(primitive), &arguments.step->first_sample);
  }

 private:
  const int64_t elements_;  // Elements of one row.
  const float rate_;
  const uint64_t layer_;
};

constexpr NumberRule kNumbers[] = {
    {"rate", kUnset, kBelowOne},
};

void Complete(proto::Layer& layer) {
  if (!layer.dropout().has_rate()) layer.mutable_dropout()->set_rate(0.5);
}

absl::StatusOr<DefinedLayer> Define(const proto::Layer& layer, LayerScope& scope) {
  const auto rate = static_cast<float>(layer.dropout().rate());
  if (!(rate >= 0 && rate < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("rate is ", layer.dropout().rate(), "; it must be at least 0 and below 1"));
  }
  TETHYS_ASSIGN_OR_RETURN(const int64_t elements, ElementCount(scope.input()));
  // The key is a hash of the layer's name. So different layers draw different numbers, and a layer still
  // draws the same numbers after other layers are added to the model.
  const uint64_t key = Fnv1a(layer.name().data(), layer.name().size());
  return DefinedLayer{.output = scope.input(),
                      .operation = std::make_shared<DropoutOperation>(elements, rate, key)};
}

std::string Text(const proto::Layer& layer) {
  return absl::StrFormat("dropout %.9g", layer.dropout().rate());
}

}  // namespace

const LayerKind kDropoutKind = {.numbers = kNumbers, .complete = Complete, .define = Define, .text = Text};

}  // namespace tethys
