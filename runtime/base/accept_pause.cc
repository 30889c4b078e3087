#include "runtime/base/accept_pause.h"

#include <utility>

#include "runtime/base/socket.h"

namespace tethys {
namespace {

constexpr Nanoseconds kPause = 200 * kMillisecond;

}  // namespace

FileDescriptor AcceptPause::Accept(int listener) {
  absl::StatusOr<FileDescriptor> caller = AcceptTcp(listener);
  if (caller.ok()) return *std::move(caller);
  until_ = clock_.Now() + kPause;
  return FileDescriptor();
}

int AcceptPause::MillisecondsLeft() const {
  if (until_ == 0) return -1;
  const Nanoseconds left = until_ - clock_.Now();
  return left <= 0 ? -1 : static_cast<int>((left + kMillisecond - 1) / kMillisecond);
}

}  // namespace tethys
