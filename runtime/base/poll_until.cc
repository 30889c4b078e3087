#include "runtime/base/poll_until.h"

#include <sched.h>

namespace tethys {

absl::StatusOr<bool> PollUntil(absl::FunctionRef<absl::StatusOr<bool>()> poll, Nanoseconds timeout,
                               const Clock& clock) {
  TETHYS_ASSIGN_OR_RETURN(bool done, poll());
  if (done) return true;
  const Nanoseconds deadline = clock.Now() + timeout;
  while (clock.Now() <= deadline) {
    sched_yield();
    TETHYS_ASSIGN_OR_RETURN(done, poll());
    if (done) return true;
  }
  return false;
}

}  // namespace tethys
