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

// Null for ACTIVATION_NONE. `shape` is that of a row. InvalidArgument: an unknown function.
absl::StatusOr<std::shared_ptr<const Operation>> MakeActivation(const Shape& shape,
                                                                proto::Activation activation);

std::string ActivationName(proto::Activation activation);  // "relu"; "" for ACTIVATION_NONE.

// The part of a layer's activation that is left once its primitive has applied a relu.
inline proto::Activation BeyondRelu(proto::Activation activation) {
  return activation == proto::RELU ? proto::ACTIVATION_NONE : activation;
}

// " relu", for the text of a layer; empty without an activation.
inline std::string ActivationSuffix(proto::Activation activation) {
  return activation == proto::ACTIVATION_NONE ? "" : absl::StrCat(" ", ActivationName(activation));
}

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_LAYERS_ACTIVATION_H_
