// A model compiled for one device and one number of rows: primitives made, activations allocated. Running a
// step allocates no heap memory. A batch with fewer samples runs on the same plan, padded with rows of weight
// 0. Belongs to one thread, the device's.
#ifndef TETHYS_RUNTIME_NN_PLAN_H_
#define TETHYS_RUNTIME_NN_PLAN_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "runtime/device/device.h"
#include "runtime/nn/model.h"
#include "runtime/tensor/batch.h"

namespace tethys {

// Elements a row takes in each of a plan's buffers for activations, the converted batch included.
std::vector<int64_t> ActivationBuffers(const Model& model, bool trains);

class Plan {
 public:
  // `parameters` and `gradient_sums` are device arenas of model.variables().arena_size() elements and outlive
  // the plan; gradient_sums may be null for a plan that only evaluates. ResourceExhausted: the device has not
  // got the memory; says how much is lacking in one piece.
  static absl::StatusOr<std::unique_ptr<Plan>> Compile(const Model& model, Device& device, Stream& stream,
                                                       int64_t rows, const InputScaling& scaling,
                                                       const float* parameters, float* gradient_sums);
  virtual ~Plan() = default;

  virtual int64_t rows() const = 0;

  // Hands over the batch of a later step; host work, no part of a captured graph. Where the device reads host
  // memory, the batch stays as it is until its Forward has returned, and none is handed over ahead of it.
  // Elsewhere it is copied while earlier steps compute, two may wait to be taken, and pinned memory stays as
  // it is until AwaitUploads. InvalidArgument: another number of rows, a label outside the classes.
  virtual absl::Status Upload(const HostBatch& batch) = 0;
  // Blocks until the batches handed over have left the host's memory, where they are to leave it.
  virtual absl::Status AwaitUploads() = 0;

  // The oldest batch handed over becomes the one that Forward reads. Stream work that differs from step to
  // step, so no part of a captured graph either.
  virtual absl::Status TakeBatch() = 0;

  // Converts the batch taken, runs the forward pass and the loss. On a device that does not read host memory
  // this is the same stream work every time, as is Backward, and may be captured.
  virtual absl::Status Forward() = 0;

  // All three, for who has no next batch.
  absl::Status Forward(const HostBatch& batch) {
    TETHYS_RETURN_IF_ERROR(Upload(batch));
    TETHYS_RETURN_IF_ERROR(TakeBatch());
    return Forward();
  }

  // Runs backward after Forward; calls ready(i, event) for range i of model.ready_order() once its gradients
  // are on the stream. Gradients are sums over rows, weighted. Layers before the first
  // with variables are left out, and so is its input gradient.
  using ReadyCallback = absl::FunctionRef<absl::Status(int64_t index, const Event& event)>;
  virtual absl::Status Backward(ReadyCallback ready) = 0;

  // Waits for the last Forward's loss. Blocks until the stream has reached it.
  virtual absl::StatusOr<LossResult> Loss() = 0;
  // For whoever does not wait: puts a copy of it to pinned host memory on the stream. May be captured.
  virtual absl::Status PutLoss(LossResult* host) = 0;

  // Bytes of activations and workspaces allocated.
  virtual int64_t workspace_bytes() const = 0;
  virtual std::string Describe() const = 0;  // A line per layer with the chosen algorithms.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_PLAN_H_
