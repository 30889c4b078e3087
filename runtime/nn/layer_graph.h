// The graph of a model's layers, without their arithmetic: which values exist, which of them need a gradient,
// and how backward adds up the gradient of a value that several layers read. Pure; immutable, thread-safe.
//
// A value is one of the tensors of a step: value 0 is the batch, value i + 1 the output of layer i. Layers
// are in an order in which each layer reads earlier values only. Forward runs in this order, backward in the
// reverse order.
#ifndef TETHYS_RUNTIME_NN_LAYER_GRAPH_H_
#define TETHYS_RUNTIME_NN_LAYER_GRAPH_H_

#include <cstdint>
#include <vector>

#include "runtime/nn/layers/operand_use.h"

namespace tethys {

struct GraphLayer {
  // The values that the layer reads, given by their numbers, in the order of the layer's operands. A value
  // may occur several times.
  std::vector<int> inputs = {};
  int64_t out = 0;      // Elements of one row of the output.
  bool trains = false;  // True: the layer has variables that training changes.
  OperandUse use = {};
};

// The way in which backward obtains a layer's part of the gradient of one input of the layer.
enum class GradientPart {
  kNone,     // The gradient of the input is not needed.
  kWritten,  // The layer writes the gradient. Later parts, if there are any, are added to the gradient.
  kAdded,    // The gradient has earlier parts, and the layer's part is added to them.
  // Only for layers that pass gradients on: the gradient of the input is the gradient of the output, in the
  // same memory.
  kShared,
  kCopied,  // Like kShared, but as a copy, because another input shares the memory and would change it.
};

class LayerGraph {
 public:
  // The output of the last layer is the model's output. Requires: all inputs of a layer are earlier values.
  LayerGraph(int64_t sample_elements, std::vector<GraphLayer> layers);

  const std::vector<GraphLayer>& layers() const { return layers_; }
  int layer_count() const { return static_cast<int>(layers_.size()); }
  // Elements of one row of a value.
  int64_t elements(int value) const { return value == 0 ? sample_elements_ : layers_[value - 1].out; }
  int64_t widest() const;

  // True if backward needs the value's gradient, because the layer that computes the value, or an earlier
  // layer, has variables that train.
  bool needs_gradient(int value) const { return needs_gradient_[value]; }
  // True if forward of this layer also applies the relu of a relu layer that is the only reader of this
  // layer's output. Forward then does not run the relu layer, whose output is in the same memory. Backward
  // runs both layers.
  bool applies_relu(int layer) const { return applies_relu_[layer]; }
  bool runs_forward(int layer) const {
    const GraphLayer& it = layers_[layer];
    return !it.use.is_relu || it.inputs[0] == 0 || !applies_relu_[it.inputs[0] - 1];
  }
  // True if backward runs this layer.
  bool runs_backward(int layer) const { return needs_gradient_[layer + 1]; }
  // One element for each input of the layer.
  const std::vector<GradientPart>& gradient_parts(int layer) const { return gradient_parts_[layer]; }
  // True if backward of this layer must not change the output's gradient, because the gradient of another
  // value lies in the same memory.
  bool keeps_gradient(int layer) const { return keeps_gradient_[layer]; }

 private:
  void FindRelus();
  bool CanShare(int layer) const;

  int64_t sample_elements_;
  std::vector<GraphLayer> layers_;
  std::vector<bool> applies_relu_;         // One element for each layer.
  std::vector<bool> needs_gradient_;       // One element for each value.
  std::vector<std::vector<int>> readers_;  // For each value, the layers that read it, in their order.
  std::vector<std::vector<GradientPart>> gradient_parts_;  // For each layer, one element for each input.
  std::vector<bool> keeps_gradient_;                       // One element for each layer.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_LAYER_GRAPH_H_
