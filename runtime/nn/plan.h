// A model compiled for one device and one number of rows: primitives made, activations allocated. Running a
// step allocates no heap memory. A batch with fewer samples runs on the same plan, padded with rows of weight
// 0. Belongs to one thread, the device's.
#ifndef TETHYS_RUNTIME_NN_PLAN_H_
#define TETHYS_RUNTIME_NN_PLAN_H_

#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "runtime/device/device.h"
#include "runtime/nn/model.h"
#include "runtime/tensor/batch.h"

namespace tethys {

class Plan {
 public:
  // `parameters` and `gradient_sums` are device arenas of model.variables().arena_size() elements and outlive
  // the plan; gradient_sums may be null for a plan that only evaluates.
  static absl::StatusOr<std::unique_ptr<Plan>> Compile(const Model& model, Device& device, Stream& stream,
                                                       int64_t rows, const InputScaling& scaling,
                                                       const float* parameters, float* gradient_sums);
  virtual ~Plan() = default;

  virtual int64_t rows() const = 0;

  // Copies the batch to the device (unless it reads host memory), converts it, runs the forward pass and the
  // loss. `batch` may be reused when this returns. InvalidArgument: another number of rows, a label outside
  // the classes.
  virtual absl::Status Forward(const HostBatch& batch) = 0;

  // Runs backward after Forward; calls ready(i, event) for range i of model.ready_order() once its gradients
  // are on the stream. Gradients are sums over rows, weighted. Layers before the first
  // with variables are left out, and so is its input gradient.
  using ReadyCallback = absl::FunctionRef<absl::Status(int64_t index, const Event& event)>;
  virtual absl::Status Backward(ReadyCallback ready) = 0;

  // Waits for the last Forward's loss. Blocks until the stream has reached it.
  virtual absl::StatusOr<LossResult> Loss() = 0;

  // Bytes of activations and workspaces allocated.
  virtual int64_t workspace_bytes() const = 0;
  virtual std::string Describe() const = 0;  // A line per layer with the chosen algorithms.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_PLAN_H_
