// Device memory seen from the host: itself where the host can use it, else by way of a copy. For set-up and
// checkpoints, not for steps: copies are made and waited for.
#ifndef TETHYS_WORKERS_DEVICE_MEMORY_H_
#define TETHYS_WORKERS_DEVICE_MEMORY_H_

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "runtime/device/device.h"

namespace tethys {

// What `fill` writes is in `memory` when this returns.
absl::Status FillDeviceMemory(Device& device, Stream& stream, absl::Span<float> memory,
                              absl::FunctionRef<absl::Status(absl::Span<float>)> fill);

// Hands what is in `memory`, after all work on the stream, to `use`.
absl::Status ReadDeviceMemory(Device& device, Stream& stream, absl::Span<const float> memory,
                              absl::FunctionRef<absl::Status(absl::Span<const float>)> use);

}  // namespace tethys

#endif  // TETHYS_WORKERS_DEVICE_MEMORY_H_
