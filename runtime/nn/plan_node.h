// A layer of a compiled plan with the addresses of its operands. Used by plan.cc only.
#ifndef TETHYS_RUNTIME_NN_PLAN_NODE_H_
#define TETHYS_RUNTIME_NN_PLAN_NODE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/nn/layers/operation.h"

namespace tethys {

// A variable's gradient of one micro-batch, and that of the batch to which it is added.
struct AddedGradient {
  const float* part = nullptr;
  float* sum = nullptr;
  int64_t elements = 0;
  std::unique_ptr<SumPrimitive> add;
};

// A layer with the addresses of its operands.
struct PlanNode {
  // One, or one for each micro-batch, if the layer uses step numbers.
  std::vector<std::unique_ptr<CompiledLayer>> layers;
  std::vector<const void*> x;
  void* y = nullptr;
  // Where backward reads inputs and output: where forward has them, or where they are computed again.
  std::vector<const void*> x_backward;
  void* y_again = nullptr;
  std::vector<int> repeats;       // Layers that run again before Backward, in this order.
  bool runs_forward = true;       // False for a relu that the layer before applies.
  void* dy = nullptr;             // Null if backward does not run the layer, like what follows.
  std::vector<void*> dx;          // What the layer writes; null where it writes nothing.
  std::vector<void*> gradients;   // The gradients of the inputs.
  std::vector<int64_t> elements;  // Of the inputs.
  std::vector<std::unique_ptr<SumPrimitive>> sums;  // By input; null unless the part is added.
  std::vector<AddedGradient> added;                 // By variable; empty with one micro-batch.

  CompiledLayer& Of(int64_t micro_batch) const { return *layers[layers.size() > 1 ? micro_batch : 0]; }
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_PLAN_NODE_H_
