// The device memory that a worker needs for a job, computed before anything is allocated: `tethys plan` shows
// it, and a worker on a GPU refuses a job that cannot fit. Pure, except CheckDeviceMemory, which asks the
// device; any thread.
//
// All but the workspaces are the buffers that trainer and plans allocate, without a device's rounding.
// NVIDIA's libraries choose their workspaces within the bounds that the CUDA back end gives them. So a job is
// refused if its sum without workspaces is too large, and a batch is only called sure to fit if there is room
// for all workspaces.
#ifndef TETHYS_RUNTIME_NN_MEMORY_FORECAST_H_
#define TETHYS_RUNTIME_NN_MEMORY_FORECAST_H_

#include <cstdint>

#include "proto/plan.pb.h"
#include "runtime/device/device.h"
#include "runtime/nn/model.h"

namespace tethys {

// Rows of the evaluating plan, beside a training plan of `rows`. Evaluation exchanges nothing between
// batches, so they may be more: at least 256 if their activations take no more than 256 MiB.
int64_t EvaluationRows(const Model& model, int64_t rows);

struct MemoryNeeds {
  int64_t rows = 0;             // Rows of a step.
  int64_t slots = 0;            // The optimizer's arenas on the worker.
  bool on_gpu = false;          // Batches are copied to the device, and libraries have workspaces.
  bool bf16 = false;            // Products use bfloat16 copies.
  bool bf16_gradients = false;  // The exchange of gradients uses a bfloat16 copy.
};

// The needs of a worker that computes on `device`.
MemoryNeeds MemoryNeedsOf(const proto::JobPlan& plan, proto::Device::Kind device);

struct MemoryForecast {  // In bytes.
  int64_t parameters = 0;
  int64_t gradients = 0;
  int64_t slots = 0;
  int64_t activations = 0;  // Both plans', with the training plan's gradients of activations.
  int64_t batches = 0;      // Slots and input buffer on a GPU.
  int64_t copies = 0;       // In bfloat16, for products and the exchange.
  int64_t workspaces = 0;   // Upper bound; not in the total.
  int64_t total() const { return parameters + gradients + slots + activations + batches + copies; }
};

MemoryForecast ForecastMemory(const Model& model, const MemoryNeeds& needs);

// The largest number of rows for which everything fits into `bytes`; 0: none does. `needs.rows` is ignored.
int64_t LargestBatch(const Model& model, MemoryNeeds needs, int64_t bytes, bool with_workspaces);

// ResourceExhausted: the job needs more than the device has free; the message says how much each part needs,
// and which batch would fit.
absl::Status CheckDeviceMemory(Device& device, const Model& model, const MemoryNeeds& needs);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_MEMORY_FORECAST_H_
