#include "runtime/await_device.h"

#include "runtime/base/poll_until.h"

namespace tethys {

absl::Status AwaitDevice(const Event& done, Nanoseconds step_timeout, const Clock& clock) {
  TETHYS_ASSIGN_OR_RETURN(const bool happened,
                          PollUntil([&] { return done.Happened(); }, step_timeout, clock));
  return happened ? absl::OkStatus() : DeviceLateError("the device did not finish the step", step_timeout);
}

absl::Status DeviceLateError(absl::string_view what, Nanoseconds step_timeout) {
  return absl::DeadlineExceededError(absl::StrCat(what, " within ", ToSeconds(step_timeout),
                                                  " s (timeouts.step): the device hangs or is too slow; if "
                                                  "the device is only slow, raise timeouts.step"));
}

}  // namespace tethys
