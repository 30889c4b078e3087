// Accepts connections for a loop that polls listening sockets. A connection that cannot be accepted, for lack
// of descriptors or memory, stays in the kernel's queue, so poll would report its listener as readable again
// at once. Therefore, after such a failure, the loop does not poll its listeners for a while (the pause).
// Nothing blocks. Not thread-safe.
//
//   pollfd listener = {pause.active() ? -1 : fd, POLLIN, 0};
//   poll(&listener, 1, pause.MillisecondsLeft());
//   if (listener.revents != 0) Serve(pause.Accept(fd));
#ifndef TETHYS_RUNTIME_BASE_ACCEPT_PAUSE_H_
#define TETHYS_RUNTIME_BASE_ACCEPT_PAUSE_H_

#include "runtime/base/clock.h"
#include "runtime/base/file.h"

namespace tethys {

class AcceptPause {
 public:
  // `clock` must outlive this object.
  explicit AcceptPause(const Clock& clock) : clock_(clock) {}

  // Calls AcceptTcp (runtime/base/socket.h), and starts a pause if AcceptTcp fails. Returns an invalid
  // descriptor if no connection was accepted. The clock is not read before the first error.
  FileDescriptor Accept(int listener);
  // Ends the pause. Call it when a descriptor has become free.
  void End() { until_ = 0; }

  // True if listeners must not be polled now.
  bool active() const { return until_ != 0 && clock_.Now() < until_; }
  // The time-out for poll: the milliseconds until the pause ends, rounded up; -1 without a pause.
  int MillisecondsLeft() const;

 private:
  const Clock& clock_;
  Nanoseconds until_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_ACCEPT_PAUSE_H_
