// The wait of strategies for a device that computes asynchronously.
#ifndef TETHYS_RUNTIME_AWAIT_DEVICE_H_
#define TETHYS_RUNTIME_AWAIT_DEVICE_H_

#include "runtime/base/clock.h"
#include "runtime/device/device.h"

namespace tethys {

// Blocks until `done` has happened. DeadlineExceeded: it has not within `step_timeout`, which is
// timeouts.step of the job.
absl::Status AwaitDevice(const Event& done, Nanoseconds step_timeout, const Clock& clock);

// The error of a device that did not finish `what` in time.
absl::Status DeviceLateError(absl::string_view what, Nanoseconds step_timeout);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_AWAIT_DEVICE_H_
