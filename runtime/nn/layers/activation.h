// Activation functions as operations of their own, for the layer `activate` and for layers whose primitive
// does not apply the function itself.
#ifndef TETHYS_RUNTIME_NN_LAYERS_ACTIVATION_H_
#define TETHYS_RUNTIME_NN_LAYERS_ACTIVATION_H_

#include <memory>
#include <string>

#include "proto/job.pb.h"
#include "runtime/nn/layers/operation.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// Null for ACTIVATION_NONE. `shape` is that of a row. InvalidArgument: an unknown function.
absl::StatusOr<std::shared_ptr<const Operation>> MakeActivation(const Shape& shape,
                                                                proto::Activation activation);

std::string ActivationName(proto::Activation activation);  // "relu"; "" for ACTIVATION_NONE.

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_LAYERS_ACTIVATION_H_
