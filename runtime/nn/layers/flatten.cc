// Flatten: y = x, where x is [a, b, ...] and y is [a b ...]. The layer moves no data, because activations are
// stored contiguously.
#include "runtime/nn/layers/kinds.h"

namespace tethys {
namespace {

absl::StatusOr<DefinedLayer> Define(const proto::Layer&, LayerScope& scope) {
  TETHYS_ASSIGN_OR_RETURN(const int64_t elements, ElementCount(scope.input()));
  return DefinedLayer{.output = {elements}};
}

std::string Text(const proto::Layer&) { return "flatten"; }

}  // namespace

const LayerKind kFlattenKind = {.define = Define, .text = Text};

}  // namespace tethys
