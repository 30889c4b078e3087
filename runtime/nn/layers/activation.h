// Activation functions as operations of their own, for the layer `activate` and for layers whose primitive
// does not apply the function itself.
#ifndef TETHYS_RUNTIME_NN_LAYERS_ACTIVATION_H_
#define TETHYS_RUNTIME_NN_LAYERS_ACTIVATION_H_

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/job.pb.h"
#include "runtime/nn/layers/operation.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// The operation that applies an activation function; null for ACTIVATION_NONE. `shape` is the shape of a row.
// InvalidArgument: an unknown function.
absl::StatusOr<std::shared_ptr<const Operation>> MakeActivation(const Shape& shape,
                                                                proto::Activation activation);

std::string ActivationName(proto::Activation activation);  // For texts: "relu"; "" for ACTIVATION_NONE.

// The activation that must still be applied after the layer's primitive. The primitive itself applies only a
// relu, so the result is ACTIVATION_NONE for RELU, and `activation` otherwise.
inline proto::Activation BeyondRelu(proto::Activation activation) {
  return activation == proto::RELU ? proto::ACTIVATION_NONE : activation;
}

// The text that ends a layer's description, such as " relu"; empty without an activation.
inline std::string ActivationSuffix(proto::Activation activation) {
  return activation == proto::ACTIVATION_NONE ? "" : absl::StrCat(" ", ActivationName(activation));
}

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_LAYERS_ACTIVATION_H_
