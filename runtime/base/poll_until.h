// Waits for a condition that can only be polled, such as an event of a device. Any thread.
#ifndef TETHYS_RUNTIME_BASE_POLL_UNTIL_H_
#define TETHYS_RUNTIME_BASE_POLL_UNTIL_H_

#include "absl/functional/function_ref.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace tethys {

// Calls `poll` at least once, and again until it returns true or an error; yields the processor in between.
// Returns false if `timeout` passes first. Reads the clock only if the first call returns false.
absl::StatusOr<bool> PollUntil(absl::FunctionRef<absl::StatusOr<bool>()> poll, Nanoseconds timeout,
                               const Clock& clock);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_POLL_UNTIL_H_
