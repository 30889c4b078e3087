// What a worker's device will have to hold for a job, computed before anything is allocated: `tethys plan`
// shows it, and a worker on a GPU refuses a job that cannot fit. Pure, but for CheckDeviceMemory, which asks
// the device; any thread.
//
// All but the workspaces are the buffers that trainer and plans allocate, without what a device rounds up.
// How much workspace NVIDIA's libraries take is theirs to choose, within the bounds that the CUDA back end
// gives them: so a job whose sum without them is too large is refused, and a batch is only called sure to fit
// where there is room for all of them.
#ifndef TETHYS_RUNTIME_NN_MEMORY_FORECAST_H_
#define TETHYS_RUNTIME_NN_MEMORY_FORECAST_H_

#include <cstdint>

#include "proto/chief.pb.h"
#include "runtime/device/device.h"
#include "runtime/nn/model.h"

namespace tethys {

// Rows of the plan that evaluates, beside one of `rows` that trains: nothing is exchanged in between, so
// more, at least 256 where their activations take no more than 256 MiB.
int64_t EvaluationRows(const Model& model, int64_t rows);

struct MemoryNeeds {
  int64_t rows = 0;             // Of a step.
  int64_t slots = 0;            // Arenas of the optimizer's, on the worker.
  bool on_gpu = false;          // Batches are brought to the device, and libraries have workspaces.
  bool bf16 = false;            // Products work on copies.
  bool bf16_gradients = false;  // So does the exchange.
};

// Of a worker of the job that computes on `device`.
MemoryNeeds MemoryNeedsOf(const proto::JobPlan& plan, proto::Device::Kind device);

struct MemoryForecast {  // In bytes.
  int64_t parameters = 0;
  int64_t gradients = 0;
  int64_t slots = 0;
  int64_t activations =
      0;                // Of the plan that trains, their gradients included, and of the one that evaluates.
  int64_t batches = 0;  // On their way to a GPU.
  int64_t copies = 0;   // In bfloat16, for products and the exchange.
  int64_t workspaces = 0;  // At most; not in the total.
  int64_t total() const { return parameters + gradients + slots + activations + batches + copies; }
};

MemoryForecast ForecastMemory(const Model& model, const MemoryNeeds& needs);

// The largest number of rows that fits into `bytes` beside the rest; 0: none does. `needs.rows` does not
// count.
int64_t LargestBatch(const Model& model, MemoryNeeds needs, int64_t bytes, bool with_workspaces);

// ResourceExhausted: more than the device has free; says how much of what, and which batch would fit.
absl::Status CheckDeviceMemory(Device& device, const Model& model, const MemoryNeeds& needs);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_MEMORY_FORECAST_H_
