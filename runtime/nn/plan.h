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

// Elements per row in each of a plan's activation buffers, including the converted batch.
std::vector<int64_t> ActivationBuffers(const Model& model, bool trains);

class Plan {
 public:
  // `parameters` and `gradient_sums` are device arenas of model.variables().arena_size() elements and outlive
  // the plan; gradient_sums may be null for a plan that only evaluates. ResourceExhausted: the device lacks
  // the memory; the message says how much is needed in one piece.
  static absl::StatusOr<std::unique_ptr<Plan>> Compile(const Model& model, Device& device, Stream& stream,
                                                       int64_t rows, const InputScaling& scaling,
                                                       const float* parameters, float* gradient_sums);
  virtual ~Plan() = default;

  virtual int64_t rows() const = 0;

  // Hands over the batch of a later step; host work, never part of a captured graph. If the device reads host
  // memory, the batch must not change until its Forward has returned, and no further batch may be handed over
  // before. Otherwise it is copied while earlier steps compute, two batches may wait to be taken, and pinned
  // memory must not change until AwaitUploads has returned. InvalidArgument: another number of rows, a label
  // outside the classes.
  virtual absl::Status Upload(const HostBatch& batch) = 0;
  // Blocks until host batches may be overwritten; no-op if the device reads host memory.
  virtual absl::Status AwaitUploads() = 0;

  // Makes the oldest batch handed over the one that Forward reads. This stream work differs from step to
  // step, so it is never part of a captured graph either.
  virtual absl::Status TakeBatch() = 0;

  // Converts the batch taken, runs the forward pass and the loss. On a device that does not read host memory
  // this is the same stream work every time, as is Backward, and may be captured.
  virtual absl::Status Forward() = 0;

  // All three, for callers that do not prefetch.
  absl::Status Forward(const HostBatch& batch) {
    TETHYS_RETURN_IF_ERROR(Upload(batch));
    TETHYS_RETURN_IF_ERROR(TakeBatch());
    return Forward();
  }

  // Runs backward after Forward; calls ready(i, event) for range i of model.ready_order() once its gradients
  // are enqueued; `event` marks their completion. Gradients are weighted sums over rows. Layers before the
  // first with variables are skipped, and so is that layer's input gradient.
  using ReadyCallback = absl::FunctionRef<absl::Status(int64_t index, const Event& event)>;
  virtual absl::Status Backward(ReadyCallback ready) = 0;

  // Waits for the last Forward's loss. Blocks until the stream has reached it.
  virtual absl::StatusOr<LossResult> Loss() = 0;
  // The variant that does not block: enqueues a copy of the loss to pinned host memory. May be captured.
  virtual absl::Status EnqueueLoss(LossResult* host) = 0;

  // Bytes of activations and workspaces allocated.
  virtual int64_t workspace_bytes() const = 0;
  virtual std::string Describe() const = 0;  // One line per layer, with the chosen algorithms.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_PLAN_H_
