// A layer of a plan: its primitive and its variables' addresses. Created by plan.cc; used by the plan's
// thread.
#ifndef TETHYS_RUNTIME_NN_PLAN_LAYER_H_
#define TETHYS_RUNTIME_NN_PLAN_LAYER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/device/device.h"
#include "runtime/nn/model.h"

namespace tethys {

class PlanLayer {
 public:
  // `parameters` and `gradient_sums` are the plan's arenas; `gradient_sums` may be null if Backward is not
  // called.
  static absl::StatusOr<std::unique_ptr<PlanLayer>> Create(const Model::Layer& layer, Device& device,
                                                           int64_t rows, const float* parameters,
                                                           float* gradient_sums);
  virtual ~PlanLayer() = default;

  // Computes y [rows, out] from x [rows, in], in the layouts of the layer's primitive.
  virtual absl::Status Forward(Stream& stream, const float* x, float* y) = 0;
  // Fills the gradients of the layer's variables, and `dx` unless it is null. May change `dy`.
  virtual absl::Status Backward(Stream& stream, const float* x, const float* y, float* dy, float* dx) = 0;

  // Bytes of device memory that the layer's primitive holds.
  virtual int64_t workspace_bytes() const = 0;
  virtual std::string Describe() const = 0;  // "dense 784 x 128 relu: forward sgemm, ..."
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_PLAN_LAYER_H_
