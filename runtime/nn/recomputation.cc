#include "runtime/nn/recomputation.h"

#include <algorithm>

namespace tethys {

std::vector<BackwardReads> FindBackwardReads(const LayerGraph& graph) {
  std::vector<BackwardReads> reads(graph.layer_count() + 1);
  for (int i = graph.layer_count(); i-- > 0;) {
    if (!graph.runs_backward(i)) continue;
    const GraphLayer& layer = graph.layers()[i];
    const auto read = [&](int value) {
      if (!reads[value].any()) reads[value].first = i;
      reads[value].last = i;
    };
    if (layer.use.backward_reads_output) read(i + 1);
    if (!layer.use.backward_reads_inputs) continue;
    for (const int input : layer.inputs) read(input);
  }
  return reads;
}

std::vector<int> FindRecomputations(const LayerGraph& graph, absl::Span<const BackwardReads> reads,
                                    int longest_chain) {
  constexpr int kImpossible = -1;
  // For each value, the length of the longest chain that ends with the value, or kImpossible if the value is
  // kept.
  std::vector<int> chain(reads.size(), kImpossible);
  for (int i = 0; i + 1 < graph.layer_count(); ++i) {
    const GraphLayer& layer = graph.layers()[i];
    const BackwardReads& output = reads[i + 1];
    const int latest = output.any() ? output.first : i;
    const auto available = [&](int input) {
      return chain[input] != kImpossible || (reads[input].any() && reads[input].last <= latest);
    };
    if (!layer.use.repeatable || !std::all_of(layer.inputs.begin(), layer.inputs.end(), available)) continue;
    int length = 0;
    for (const int input : layer.inputs) length = std::max(length, chain[input]);
    if (output.any()) ++length;
    if (length <= longest_chain) chain[i + 1] = length;
  }
  std::vector<int> before(reads.size(), kNoLayer);
  for (int value = graph.layer_count(); value > 0; --value) {
    if (chain[value] == kImpossible) continue;
    before[value] = std::max(before[value], reads[value].first);
    for (const int input : graph.layers()[value - 1].inputs) {
      if (chain[input] != kImpossible) before[input] = std::max(before[input], before[value]);
    }
  }
  return before;
}

}  // namespace tethys
