// Where the values of a step lie in one block of memory: values that are not needed at the same time may
// share memory. Pure; any thread. Positions and sizes are in elements of
// activations.
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
  std::vector<int64_t> begin = {};  // By block; a multiple of kAlignment.
  int64_t elements = 0;             // Of the memory that holds them all.
};

// Places blocks so that no two overlap that are needed at the same time. Every block is put at the lowest
// free position, in one order after the other (by size, by size and duration, by time; each also with its
// highest block moved forward, repeatedly) until little is lost against the peak; the smallest result is
// taken. (Finding the least memory is NP-hard; for the greedy order by size see Pisarchyk and Lee, "Efficient
// Memory Management for Deep Neural Net Inference", 2020.)
Placement PlaceBlocks(absl::Span<const Lifetime> blocks);

// The most elements that are needed at one time, each block rounded up to kAlignment: no placement has fewer.
int64_t PeakElements(absl::Span<const Lifetime> blocks);

// The memory of a step (or, if it does not train, of an evaluation) of `rows` rows.
struct StepMemory {
  static constexpr int64_t kAbsent = -1;
  // The first element of each value and of each value's gradient. kAbsent: the value has no gradient.
  std::vector<int64_t> values = {};
  std::vector<int64_t> gradients = {};
  // By layer and input: where the layer writes a GradientPart::kAdded. kAbsent otherwise, and if it passes
  // the output's gradient.
  std::vector<std::vector<int64_t>> parts = {};
  // The first element of each value that backward computes again. kAbsent: it reads the value of forward.
  std::vector<int64_t> again = {};
  // By layer: the layers whose outputs are computed again before its Backward, in this order.
  std::vector<std::vector<int>> repeats = {};
  int64_t elements = 0;
};

// InvalidArgument: fewer than one row, or values of more elements than memory can hold.
absl::Status CheckRows(const LayerGraph& graph, int64_t rows);

// With `recomputes`, backward computes values again (recomputation.h) and forward frees them; of the lengths
// of chains, the one with the lowest peak is taken.
StepMemory PlanStepMemory(const LayerGraph& graph, int64_t rows, bool trains, bool recomputes = false);

// The blocks that PlanStepMemory places.
std::vector<Lifetime> StepLifetimes(const LayerGraph& graph, int64_t rows, bool trains,
                                    bool recomputes = false);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_MEMORY_PLAN_H_
