// Gives the host access to device memory: to the memory itself if the host can use it, otherwise to a copy.
// Meant for set-up and checkpoints, not for steps, because both functions block for the copy.
#ifndef TETHYS_WORKERS_DEVICE_MEMORY_H_
#define TETHYS_WORKERS_DEVICE_MEMORY_H_

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "runtime/device/device.h"

namespace tethys {

// Calls `fill` with host memory. When FillDeviceMemory returns, `memory` holds the values that `fill` wrote.
absl::Status FillDeviceMemory(Device& device, Stream& stream, absl::Span<float> memory,
                              absl::FunctionRef<absl::Status(absl::Span<float>)> fill);

// Waits for all work on the stream, then passes the contents of `memory` to `use`.
absl::Status ReadDeviceMemory(Device& device, Stream& stream, absl::Span<const float> memory,
                              absl::FunctionRef<absl::Status(absl::Span<const float>)> use);

}  // namespace tethys

#endif  // TETHYS_WORKERS_DEVICE_MEMORY_H_
