// The properties of a layer that do not depend on the shapes of its inputs: the layer's kind and the defaults
// of the layer's fields. Used to complete a job file and to make a model. Pure; any thread.
#ifndef TETHYS_RUNTIME_NN_LAYERS_LAYER_DEFAULTS_H_
#define TETHYS_RUNTIME_NN_LAYERS_LAYER_DEFAULTS_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "proto/job.pb.h"
#include "runtime/base/number_rule.h"

namespace tethys {

// The name of the layer's kind: "dense", "flatten", ...; "layer" if the kind is missing.
std::string LayerKindName(const proto::Layer& layer);

// Sets the absent fields of the layer at `position`: its name (KIND_POSITION, "dense_1"), the initializer
// that suits its activation, a window's size and strides, a convolution's dilation, groups and bias. Values
// are not checked.
void ResolveLayer(int position, proto::Layer& layer);

// Calls `visit` for each numeric field of each kind of layer, with its path in proto::Layer: "dense.units".
void ForEachLayerNumber(absl::FunctionRef<void(const std::string& path, const NumberRule& rule)> visit);

// The kinds of layers as a job file writes them: "flatten, dense, ... or concatenation".
std::string LayerKindList();

// True if training changes the variables of the layer.
inline bool IsTrainable(const proto::Layer& layer) { return !layer.has_trainable() || layer.trainable(); }

// The length of the first axis of the layer's shortest variable, its bias or its filters; 0 if the layer has
// no variable.
int64_t SmallestVariable(const proto::Layer& layer);

// A resolved layer in a line of text: "dense 128 relu".
std::string LayerText(const proto::Layer& layer);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_LAYERS_LAYER_DEFAULTS_H_
