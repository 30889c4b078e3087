// Chooses the values that backward computes again instead of keeping them since forward. Used by the memory
// plan only. Pure; any thread.
#ifndef TETHYS_RUNTIME_NN_RECOMPUTATION_H_
#define TETHYS_RUNTIME_NN_RECOMPUTATION_H_

#include <vector>

#include "absl/types/span.h"
#include "runtime/nn/layer_graph.h"

namespace tethys {

constexpr int kNoLayer = -1;

// The first and the last layer whose Backward reads a value. Backward visits the layers from the last one, so
// `first` is not less than `last`. kNoLayer: no layer reads the value.
struct BackwardReads {
  int first = kNoLayer;
  int last = kNoLayer;
  bool any() const { return first != kNoLayer; }
};

// For each value of the graph, the layers whose Backward reads it: for the input first, then for the outputs
// of the layers in their order.
std::vector<BackwardReads> FindBackwardReads(const LayerGraph& graph);

// For each value, the layer before whose Backward the value is computed again; kNoLayer if the value is kept.
//
// 1. A value is computed again at most once, by a layer that is repeatable, and never if the loss reads the
// value.
// 2. When a value is computed again, each input of its layer is available. Either the input is kept since
// forward, because backward reads the input at that time or later, or the input is itself computed again, at
// that time or earlier. So a value that backward does not read may be computed again for another value.
// 3. A chain of values that are computed one from the other contains at most `longest_chain` values that
// backward reads. All values of a chain are computed when the last of them is needed: a long chain keeps few
// values since forward, but has many values in memory at once.
std::vector<int> FindRecomputations(const LayerGraph& graph, absl::Span<const BackwardReads> reads,
                                    int longest_chain);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_RECOMPUTATION_H_
