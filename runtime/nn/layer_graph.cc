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
      gradient_parts_(layers_.size()) {
  for (int i = 0; i < layer_count(); ++i) {
    bool needed = layers_[i].trains;
    for (const int input : layers_[i].inputs) {
      TETHYS_CHECK(input >= 0 && input <= i, "a layer reads a value that does not exist yet");
      needed = needed || needs_gradient_[input];
    }
    needs_gradient_[i + 1] = needed;
  }
  FindRelus();
  std::vector<bool> has_part(layers_.size() + 1);
  for (int i = layer_count(); i-- > 0;) {
    bool shared = false;
    for (const int input : layers_[i].inputs) {
      GradientPart part = GradientPart::kNone;
      if (needs_gradient_[input]) {
        part = has_part[input] ? GradientPart::kAdded : GradientPart::kWritten;
        has_part[input] = true;
      }
      if (part == GradientPart::kWritten && layers_[i].use.passes_gradient) {
        // Parts are added to the gradient of an input that occurs twice, which must not change the output's.
        const bool once = std::count(layers_[i].inputs.begin(), layers_[i].inputs.end(), input) == 1;
        part = once && !shared ? GradientPart::kShared : GradientPart::kCopied;
        shared = shared || part == GradientPart::kShared;
      }
      gradient_parts_[i].push_back(part);
    }
  }
}

void LayerGraph::FindRelus() {
  std::vector<int> readers(layers_.size() + 1);
  for (const GraphLayer& layer : layers_) {
    for (const int input : layer.inputs) ++readers[input];
  }
  for (const GraphLayer& layer : layers_) {
    const int input = layer.inputs[0];
    if (!layer.use.is_relu || input == 0 || readers[input] != 1) continue;
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
