// A model compiled for one device and one number of rows: its primitives are created and its activations are
// allocated. Running a step allocates no heap memory. A batch with fewer samples runs on the same plan,
// padded with rows of weight 0. Used by the device's thread only.
#ifndef TETHYS_RUNTIME_NN_PLAN_H_
#define TETHYS_RUNTIME_NN_PLAN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "runtime/device/device.h"
#include "runtime/nn/model.h"
#include "runtime/tensor/batch.h"

namespace tethys {

// The number of elements, of the device's activation type, that a plan needs for the values of `rows` rows
// (the rows of a micro-batch) and for the gradients of these values. Plans that never run at the same time
// may share this memory: nothing in it outlives a step. InvalidArgument: fewer than one row, or more elements
// than memory can hold.
absl::StatusOr<int64_t> ActivationElements(const Model& model, int64_t rows, bool trains,
                                           bool recomputes = false);

// The rows of one micro-batch.
constexpr int64_t MicroBatchRows(int64_t rows, int64_t micro_batches) {
  return (rows + micro_batches - 1) / micro_batches;
}

struct PlanOptions {
  int64_t rows = 0;  // Rows of a batch.
  // A batch is computed in this many parts, one after the other. Gradients of the parts are added up, and
  // each part is normalised separately. At most `rows`.
  int64_t micro_batches = 1;
  InputScaling scaling = {};
  uint64_t seed = 0;  // Seed of dropout.
  // The number of parts of a batch that are normalised separately (BatchNormalisationShape::groups).
  int64_t groups = 1;
  // For a plan that trains: sums statistics over the workers, so that the batches of all workers are
  // normalised as one batch. Must outlive the plan. Null: each worker's batch is normalised separately.
  StreamReducer* sums = nullptr;
  bool recomputes = false;  // True: backward computes values again to save memory (PlanStepMemory).
};

// Device memory that must outlive the plan.
struct PlanMemory {
  const float* parameters = nullptr;  // As many floats as model.variables().arena_size(), like gradient_sums.
  float* gradient_sums = nullptr;     // Null: the plan only evaluates.
  // model.statistics().arena_size() elements. A plan that trains changes them in EnqueueStatistics; a plan
  // that evaluates reads them.
  float* statistics = nullptr;
  // At least ActivationElements elements; null: the plan allocates its activations.
  Buffer* activations = nullptr;
};

class Plan {
 public:
  // ResourceExhausted: the device lacks the memory; the message says how much is needed in one piece.
  static absl::StatusOr<std::unique_ptr<Plan>> Compile(const Model& model, Device& device, Stream& stream,
                                                       const PlanOptions& options, const PlanMemory& memory);
  virtual ~Plan() = default;

  // The rows of a batch, rounded up so that the micro-batches are of one size.
  virtual int64_t rows() const = 0;
  virtual int64_t micro_batches() const = 0;

  // Hands over the batch of a later step. This is host work, never part of a captured graph. If the device
  // reads host memory, the batch must not change until its Forward has returned, and no other batch may be
  // handed over before that. Otherwise the batch is copied while earlier steps compute, up to two batches may
  // wait for TakeBatch, and pinned memory must not change until AwaitUploads has returned. InvalidArgument:
  // the number of rows of `batch` is not rows(), or a label is not valid for the loss.
  virtual absl::Status Upload(const HostBatch& batch) = 0;
  // Blocks until host batches may be overwritten; no-op if the device reads host memory.
  virtual absl::Status AwaitUploads() = 0;
  // Forgets the batches that were handed over and not yet taken. Afterwards the plan does not use their
  // memory.
  virtual absl::Status DropBatches() = 0;

  // Makes Forward read the oldest batch that was handed over and not yet taken. This stream work differs from
  // step to step, so it must not be part of a captured graph either.
  virtual absl::Status TakeBatch() = 0;

  // Sets the StepNumbers of the next step and of all later steps, until this function is called again. Before
  // the first call, the numbers have the default values of StepNumbers. `host` has one element for each
  // micro-batch, in pinned memory, which is read when the work runs. A no-op if no layer uses the numbers. A
  // graph may capture the work.
  virtual absl::Status EnqueueStepNumbers(const StepNumbers* host) = 0;

  // Converts a micro-batch of the batch that was taken, then runs the forward pass and the loss. Forward and
  // Backward return the errors of PlanOptions::sums. On a device that does not read host memory, Forward and
  // Backward enqueue the same stream work every time, so a graph may capture them.
  virtual absl::Status Forward(int64_t micro_batch) = 0;
  absl::Status Forward() { return Forward(0); }

  // Upload, TakeBatch and Forward in one call, for callers that do not prefetch.
  absl::Status Forward(const HostBatch& batch) {
    TETHYS_RETURN_IF_ERROR(Upload(batch));
    TETHYS_RETURN_IF_ERROR(TakeBatch());
    return Forward();
  }

  // Enqueues the backward pass of the last Forward. The gradients of the first micro-batch replace the
  // gradients in memory, and the gradients of later micro-batches are added to them. With the last
  // micro-batch, calls ready(i, event) for range i of model.ready_order() as soon as the work for its
  // gradients is enqueued; `event` happens when the gradients are complete. Gradients are weighted sums over
  // rows. Skips layers whose output does not depend on a variable that training changes, and the gradients of
  // such outputs.
  using ReadyCallback = absl::FunctionRef<absl::Status(int64_t index, const Event& event)>;
  virtual absl::Status Backward(ReadyCallback ready) = 0;

  // Enqueues the change that the batch of the last Forward makes to the moving statistics; a no-op if the
  // model has no moving statistics, or the plan only evaluates. `refused` is in device memory. If *refused is
  // not 0 when the work runs, the statistics do not change. If `refused` is null, they always change. If
  // `offset` is not 0, an arena of statistics that lies `offset` floats behind PlanMemory::statistics changes
  // instead. A graph may capture this work.
  virtual absl::Status EnqueueStatistics(const int32_t* refused, int64_t offset) = 0;
  absl::Status EnqueueStatistics(const int32_t* refused) { return EnqueueStatistics(refused, 0); }

  // Returns the loss of a plan with one micro-batch. Blocks until the stream has computed it.
  virtual absl::StatusOr<LossResult> Loss() = 0;
  // Like Loss, but does not block: enqueues a copy of the losses, one for each micro-batch, to pinned host
  // memory. A graph may capture the copy.
  virtual absl::Status EnqueueLoss(LossResult* host) = 0;

  // Copies the outputs of the last Forward of a plan with one micro-batch to host[0 .. rows *
  // model.outputs()), row by row. Blocks until the stream has computed them.
  virtual absl::Status ReadOutputs(float* host) = 0;

  // The confusion matrix of all Forwards since the last call, as in LossTensors; empty if the plan trains, or
  // the loss has no classes. Blocks until the stream has computed the matrix.
  virtual absl::StatusOr<std::vector<int64_t>> TakeConfusion() = 0;

  // Bytes of the plan's activations (shared or its own), batches and workspaces, without the memory that all
  // primitives of a device share.
  virtual int64_t workspace_bytes() const = 0;
  virtual std::string Describe() const = 0;  // For logs: one line for each layer, with the algorithms chosen.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_PLAN_H_
