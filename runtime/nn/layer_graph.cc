#include "runtime/nn/layer_graph.h"

#include <algorithm>
#include <utility>

#include "runtime/base/status.h"

namespace tethys {

LayerGraph::LayerGraph(int64_t sample_elements, std::vector<GraphLayer> layers)
    : sample_elements_(sample_elements),
      layers_(std::move(layers)),
      applies_relu_(layers_.size()),
      needs_gradient_(layers_.size() + 1),
      readers_(layers_.size() + 1),
      gradient_parts_(layers_.size()),
      keeps_gradient_(layers_.size()) {
  for (int i = 0; i < layer_count(); ++i) {
    bool needed = layers_[i].trains;
    for (const int input : layers_[i].inputs) {
      TETHYS_CHECK(input >= 0 && input <= i, "a layer reads a value that does not exist yet");
      readers_[input].push_back(i);
      needed = needed || needs_gradient_[input];
    }
    needs_gradient_[i + 1] = needed;
  }
  FindRelus();
  std::vector<bool> has_part(layers_.size() + 1);
  for (int i = layer_count(); i-- > 0;) {
    const bool all_share = CanShare(i) && !has_part[layers_[i].inputs[0]] && !has_part[layers_[i].inputs[1]];
    if (all_share) keeps_gradient_[std::max(layers_[i].inputs[0], layers_[i].inputs[1]) - 1] = true;
    bool shared = false;
    for (const int input : layers_[i].inputs) {
      GradientPart part = GradientPart::kNone;
      if (needs_gradient_[input]) {
        part = has_part[input] ? GradientPart::kAdded : GradientPart::kWritten;
        has_part[input] = true;
      }
      if (part == GradientPart::kWritten && layers_[i].use.passes_gradient) {
        // If an input occurs twice, the second part of the input's gradient is added to the first part. In
        // this case the gradient of the input must not share memory with the gradient of the output.
        const bool once = std::count(layers_[i].inputs.begin(), layers_[i].inputs.end(), input) == 1;
        part = all_share || (once && !shared) ? GradientPart::kShared : GradientPart::kCopied;
        shared = shared || part == GradientPart::kShared;
      }
      gradient_parts_[i].push_back(part);
    }
  }
}

// True if the gradients of both inputs of a sum can stay in the memory of the sum's gradient until parts are
// added to one of them. This requires that only the sum reads the later input. Backward reaches the layer
// that computes the later input first; this layer must be able to write the gradient of its own input to
// other memory. Parts from other layers must be added to the gradient of the earlier input only afterwards.
bool LayerGraph::CanShare(int layer) const {
  const GraphLayer& sum = layers_[layer];
  if (!sum.use.passes_gradient || sum.inputs.size() != 2) return false;
  const int earlier = std::min(sum.inputs[0], sum.inputs[1]), later = std::max(sum.inputs[0], sum.inputs[1]);
  if (earlier == later || !needs_gradient_[earlier] || !needs_gradient_[later]) return false;
  const OperandUse& first = layers_[later - 1].use;
  if (!first.overwrites_gradient || first.passes_gradient || readers_[later].size() != 1) return false;
  return std::all_of(readers_[earlier].begin(), readers_[earlier].end(),
                     [&](int reader) { return reader == layer || reader <= later - 1; });
}

void LayerGraph::FindRelus() {
  for (const GraphLayer& layer : layers_) {
    const int input = layer.inputs[0];
    if (!layer.use.is_relu || input == 0 || readers_[input].size() != 1) continue;
    const OperandUse& before = layers_[input - 1].use;
    applies_relu_[input - 1] =
        before.applies_relu && !before.backward_reads_output && layer.use.overwrites_input;
  }
}

int64_t LayerGraph::widest() const {
  int64_t widest = sample_elements_;
  for (const GraphLayer& layer : layers_) widest = std::max(widest, layer.out);
  return widest;
}

}  // namespace tethys
