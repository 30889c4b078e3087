// Activate: y = f(x), element by element, for inputs of any shape; f is an activation function
// (activation.h).
#include "runtime/nn/layers/activation.h"
#include "runtime/nn/layers/kinds.h"

namespace tethys {
namespace {

constexpr NumberRule kNumbers[] = {
    {"activation", kRequired, From(1, proto::Activation_MAX)},
};

absl::StatusOr<DefinedLayer> Define(const proto::Layer& layer, LayerScope& scope) {
  TETHYS_ASSIGN_OR_RETURN(auto operation, MakeActivation(scope.input(), layer.activate().activation()));
  if (operation == nullptr)
    return absl::InvalidArgumentError("activation is ACTIVATION_NONE; give another activation");
  return DefinedLayer{.output = scope.input(), .operation = std::move(operation)};
}

std::string Text(const proto::Layer& layer) { return ActivationName(layer.activate().activation()); }

}  // namespace

const LayerKind kActivateKind = {.numbers = kNumbers, .define = Define, .text = Text};

}  // namespace tethys
