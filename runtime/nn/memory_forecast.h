// Computes the device memory that a worker needs for a job, before anything is allocated. `tethys plan` shows
// the result, and a worker on a GPU refuses a job that cannot fit. All functions are pure, except
// CheckDeviceMemory, which queries the device. They may be called on any thread.
//
// The forecast counts the buffers that trainer and plans allocate, without a device's rounding, and the
// workspaces of NVIDIA's libraries. The libraries choose workspaces within the bounds that the CUDA back end
// sets, so the forecast has only upper bounds for the workspaces. A job is refused if it does not fit even
// without workspaces. A batch is said to fit for certain only if all workspaces fit, too.
#ifndef TETHYS_RUNTIME_NN_MEMORY_FORECAST_H_
#define TETHYS_RUNTIME_NN_MEMORY_FORECAST_H_

#include <cstdint>

#include "proto/plan.pb.h"
#include "runtime/device/device.h"
#include "runtime/nn/model.h"

namespace tethys {

// The rows of the evaluation plan of a worker whose training plan has `rows` rows. The result is at least
// `rows`, and at least 256 if the activations of 256 rows take at most 256 MiB in float32. More rows than in
// training are possible because evaluation exchanges nothing between batches.
int64_t EvaluationRows(const Model& model, int64_t rows);

struct MemoryNeeds {
  int64_t rows = 0;           // Rows of one step.
  int64_t micro_batches = 1;  // The number of parts in which a batch is computed, one after the other.
  int64_t groups = 1;         // The number of parts of a batch that are normalised separately.
  ValueType inputs = ValueType::kByte;
  int64_t slots = 0;        // Number of arenas that the optimizer keeps on this worker.
  bool on_gpu = false;      // True: batches are copied to the device, and libraries have workspaces.
  bool recomputes = false;  // True: backward computes values again to save memory (PlanOptions::recomputes).
  // The type of activations. If it is bfloat16, products use bfloat16 copies of the weights.
  ElementType activations = ElementType::kFloat32;
  bool bf16_gradients = false;  // True: the exchange of gradients uses a bfloat16 copy.
  bool evaluates = true;        // True: the worker also has a plan for evaluations.
  // The number of batches in host memory. The forecast counts them only if on_gpu is false, because host
  // memory is then the memory of the device.
  int64_t host_batches = 0;
};

// Returns the needs of a worker that computes on `device`.
MemoryNeeds MemoryNeedsOf(const proto::JobPlan& plan, proto::Device::Kind device);
// Returns the needs of steps with `rows` rows that are only measured (workers/step_meter.h): on the plan's
// device, with the optimizer's slots, without evaluations and without batches that are read ahead.
MemoryNeeds MeasuredStepNeeds(const proto::JobPlan& plan, int64_t rows);

struct MemoryForecast {  // All in bytes.
  int64_t parameters = 0;
  // Gradients of all layers; with micro-batches, also the gradients of one layer for one micro-batch.
  int64_t gradients = 0;
  int64_t slots = 0;
  int64_t statistics = 0;  // Moving statistics, once for training and once for evaluation.
  // Values of a step and their gradients, in memory that the plans for training and for evaluation share.
  int64_t activations = 0;
  // Batches on the device (BatchUploads: two slots and the buffer that a step reads), or the batches that
  // MemoryNeeds::host_batches counts.
  int64_t batches = 0;
  int64_t copies = 0;  // Bfloat16 copies: of weights for products, and of gradients for the exchange.
  // Upper bounds on workspaces, which total() leaves out: the sum of the workspaces that layers do not share,
  // and the largest of the shared workspaces.
  int64_t own_workspaces = 0;
  int64_t shared_workspace = 0;
  int64_t workspaces() const { return own_workspaces + shared_workspace; }
  int64_t total() const {
    return parameters + gradients + slots + statistics + activations + batches + copies;
  }
};

MemoryForecast ForecastMemory(const Model& model, const MemoryNeeds& needs);

// The largest number of rows for which the forecast fits into `bytes`; 0 if not even one row fits.
// `needs.rows` is ignored.
int64_t LargestBatch(const Model& model, MemoryNeeds needs, int64_t bytes, bool with_workspaces);

// ResourceExhausted: the job needs more memory than the device has free; the message says how much each part
// needs, and which batch would fit.
absl::Status CheckDeviceMemory(Device& device, const Model& model, const MemoryNeeds& needs);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_MEMORY_FORECAST_H_
