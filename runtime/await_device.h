// How strategies wait for a device that computes asynchronously.
#ifndef TETHYS_RUNTIME_AWAIT_DEVICE_H_
#define TETHYS_RUNTIME_AWAIT_DEVICE_H_

#include "runtime/base/clock.h"
#include "runtime/device/device.h"

namespace tethys {

// Blocks until `done` has happened. DeadlineExceeded: it did not happen within `step_timeout`, which is the
// job's timeouts.step.
absl::Status AwaitDevice(const Event& done, Nanoseconds step_timeout, const Clock& clock);

// Returns the error of a device that has not finished in time. `what` says what the device did not do in
// time.
absl::Status DeviceLateError(absl::string_view what, Nanoseconds step_timeout);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_AWAIT_DEVICE_H_
