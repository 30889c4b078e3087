// y = f(x) and dx = dy f'(x), element by element. Backward computes f' from y, so x need not be kept; the
// functions are in elementwise_primitives.h.
#include "runtime/nn/layers/activation.h"

#include <utility>

#include "absl/strings/ascii.h"

namespace tethys {
namespace {

class CompiledActivation final : public CompiledLayer {
 public:
  explicit CompiledActivation(std::unique_ptr<ActivationPrimitive> primitive)
      : primitive_(std::move(primitive)) {}

  absl::Status Forward(Stream& stream, const ForwardTensors& tensors) override {
    return primitive_->Forward(stream, tensors.x[0], tensors.y);
  }
  absl::Status Backward(Stream& stream, const BackwardTensors& tensors) override {
    return primitive_->Backward(stream, tensors.y, tensors.dy, tensors.dx[0]);
  }

 private:
  const std::unique_ptr<ActivationPrimitive> primitive_;
};

class ActivationOperation final : public Operation {
 public:
  ActivationOperation(int64_t elements, ActivationFunction function, std::string name)
      : elements_(elements), function_(function), name_(std::move(name)) {}

  OperandUse operand_use() const override {
    return {.backward_reads_output = true,
            .repeatable = true,
            .overwrites_input = true,
            .overwrites_gradient = true,
            .is_relu = function_ == ActivationFunction::kRelu};
  }
  std::string Describe() const override { return absl::StrCat(name_, " of ", elements_); }
  absl::StatusOr<std::unique_ptr<CompiledLayer>> Compile(const CompileArguments& arguments) const override {
    TETHYS_ASSIGN_OR_RETURN(auto primitive,
                            arguments.device.Create(ActivationShape{arguments.rows * elements_, function_}));
    return std::make_unique<CompiledActivation>(std::move(primitive));
  }

 private:
  const int64_t elements_;  // Elements of one row.
  const ActivationFunction function_;
  const std::string name_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Operation>> MakeActivation(const Shape& shape,
                                                                proto::Activation activation) {
  TETHYS_ASSIGN_OR_RETURN(const int64_t elements, ElementCount(shape));
  const auto make = [&](ActivationFunction function) {
    return std::make_shared<ActivationOperation>(elements, function, ActivationName(activation));
  };
  switch (activation) {
    case proto::ACTIVATION_NONE:
      return nullptr;
    case proto::RELU:
      return make(ActivationFunction::kRelu);
    case proto::RELU6:
      return make(ActivationFunction::kRelu6);
    case proto::SIGMOID:
      return make(ActivationFunction::kSigmoid);
    case proto::TANH:
      return make(ActivationFunction::kTanh);
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("there is no activation ", static_cast<int>(activation)));
  }
}

std::string ActivationName(proto::Activation activation) {
  return activation == proto::ACTIVATION_NONE ? ""
                                              : absl::AsciiStrToLower(proto::Activation_Name(activation));
}

}  // namespace tethys
