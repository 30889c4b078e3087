// Plans the positions of the values of a step within one allocation. Values that are not needed at the same
// time may share memory. Pure; any thread. Positions and sizes are in elements of activations.
#ifndef TETHYS_RUNTIME_NN_MEMORY_PLAN_H_
#define TETHYS_RUNTIME_NN_MEMORY_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/nn/layer_graph.h"

namespace tethys {

// A block that is needed at the times [first, last].
struct Lifetime {
  int64_t elements = 0;
  int first = 0;
  int last = 0;
};

struct Placement {
  std::vector<int64_t> begin = {};  // First element of each block; a multiple of kAlignment.
  int64_t elements = 0;             // Elements of the memory for all blocks.
};

// Places blocks so that blocks that are needed at the same time do not overlap. Several orders of the blocks
// are tried: by size, by size and duration, and by time. In an order, each block is put at the lowest
// position that is free. Then the block that lies highest in memory is moved forward in the order, and all
// blocks are placed again, until the memory is little above the peak or the number of tries is reached. The
// smallest result is taken. (Finding the least memory is NP-hard; for the greedy order by size see Pisarchyk
// and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020.)
Placement PlaceBlocks(absl::Span<const Lifetime> blocks);

// The most elements that are needed at one time, each block rounded up to kAlignment: no placement has fewer.
int64_t PeakElements(absl::Span<const Lifetime> blocks);

// The memory of a training step, or of an evaluation, of `rows` rows.
struct StepMemory {
  static constexpr int64_t kAbsent = -1;
  // The first element of each value and of each value's gradient. kAbsent: the value has no gradient.
  std::vector<int64_t> values = {};
  std::vector<int64_t> gradients = {};
  // For each layer and input, the first element of the memory where the layer writes its part of the input's
  // gradient, if the part is GradientPart::kAdded. kAbsent for other parts, and for a layer whose input
  // gradient is the unchanged gradient of its output.
  std::vector<std::vector<int64_t>> parts = {};
  // The first element of each value that backward computes again. kAbsent: backward reads the value that
  // forward wrote.
  std::vector<int64_t> again = {};
  // For each layer, the layers whose outputs are computed again before its Backward, in this order.
  std::vector<std::vector<int>> repeats = {};
  int64_t elements = 0;
};

// InvalidArgument: fewer than one row, or values of more elements than memory can hold.
absl::Status CheckRows(const LayerGraph& graph, int64_t rows);

// With `recomputes`, backward computes values again (recomputation.h), and forward frees these values. The
// limit on chains of recomputed values (longest_chain) is then chosen so that the peak is lowest.
StepMemory PlanStepMemory(const LayerGraph& graph, int64_t rows, bool trains, bool recomputes = false);

// The blocks that PlanStepMemory places.
std::vector<Lifetime> StepLifetimes(const LayerGraph& graph, int64_t rows, bool trains,
                                    bool recomputes = false);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_MEMORY_PLAN_H_
