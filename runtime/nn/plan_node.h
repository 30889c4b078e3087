// A layer of a compiled plan with the addresses of its operands. Used by plan.cc only.
#ifndef TETHYS_RUNTIME_NN_PLAN_NODE_H_
#define TETHYS_RUNTIME_NN_PLAN_NODE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/nn/layers/operation.h"

namespace tethys {

// The gradient of a variable in one micro-batch, and the sum over micro-batches to which it is added.
struct AddedGradient {
  const float* part = nullptr;
  float* sum = nullptr;
  int64_t elements = 0;
  std::unique_ptr<SumPrimitive> add;
};

// A layer with the addresses of its operands.
struct PlanNode {
  // The compiled layer: one element, or one element for each micro-batch if the layer uses step numbers.
  std::vector<std::unique_ptr<CompiledLayer>> layers;
  std::vector<const void*> x;
  void* y = nullptr;
  // The addresses from which backward reads the inputs and the output: the addresses that forward wrote, or
  // the addresses at which backward has computed the values again.
  std::vector<const void*> x_backward;
  void* y_again = nullptr;
  std::vector<int> repeats;  // Layers that run again before Backward of this layer, in this order.
  bool runs_forward = true;  // False for a relu layer whose relu the preceding layer applies.
  // The gradient of the output. Null, like the gradients below, if backward does not run the layer.
  void* dy = nullptr;
  // The addresses to which the layer writes the gradients of its inputs; null for an input whose gradient the
  // layer does not write.
  std::vector<void*> dx;
  std::vector<void*> gradients;   // The address of the complete gradient of each input.
  std::vector<int64_t> elements;  // Elements of each input.
  // For each input, the primitive that adds the layer's part to the gradient; null unless the part is added.
  std::vector<std::unique_ptr<SumPrimitive>> sums;
  std::vector<AddedGradient> added;  // One for each variable; empty with one micro-batch.

  CompiledLayer& Of(int64_t micro_batch) const { return *layers[layers.size() > 1 ? micro_batch : 0]; }
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_PLAN_NODE_H_
