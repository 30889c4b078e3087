// Input: bytes that an unauthenticated caller sends to a worker that forms its ring. If the first byte is
// odd, the other bytes are turned into a valid frame with a handshake.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "collectives/job_authenticator.h"
#include "collectives/ring_communicator.h"
#include "collectives/ring_formation.h"
#include "runtime/base/socket.h"
#include "tests/fuzz/frame_bytes.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {
namespace {

// Advances by a millisecond whenever the clock is read.
class HurriedClock final : public Clock {
 public:
  Nanoseconds Now() const override { return now_ += kMillisecond; }

 private:
  mutable Nanoseconds now_ = kSecond;
};

// The time-out of FormRing. It is long enough to accept, read and refuse the caller. After that, FormRing
// still waits until the time-out expires.
constexpr Nanoseconds kPatience = 6 * kMillisecond;

std::string BytesOf(absl::string_view input) {
  const bool seal = !input.empty() && (input[0] & 1) != 0;
  std::string bytes(input.substr(std::min<size_t>(1, input.size())));
  if (!seal || bytes.size() < kFrameBytes) return bytes;
  Frame frame{
      .kind = FrameKind::kHandshake, .dtype = FrameDType::kNone, .payload_bytes = bytes.size() - kFrameBytes};
  frame.EncodeTo(bytes.data());
  return bytes;
}

// Connects to the address; closing the descriptor resets the connection.
FileDescriptor Connect(const std::string& address) {
  absl::StatusOr<FileDescriptor> fd = StartConnectTcp(*ParseHostPort(address));
  Require(fd.ok(), "a connection on loopback");
  const linger at_once = {1, 0};
  setsockopt(fd->get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  return *std::move(fd);
}

}  // namespace

void FuzzRingCaller(absl::string_view input) {
  const HurriedClock clock;
  const auto listener = RingListener::Listen("127.0.0.1");
  Require(listener.ok(), "a port on loopback");
  RingOptions options;
  options.members = {{.address = (*listener)->address()}, {.address = (*listener)->address()}};
  options.authenticator = CreateJobAuthenticator(JobToken::Random(), proto::Handshake());
  options.connect_timeout = kPatience;
  options.clock = &clock;

  const FileDescriptor caller = Connect((*listener)->address());
  const std::string bytes = BytesOf(input);
  Require(send(caller.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()),
          "loopback takes an input whole");
  shutdown(caller.get(), SHUT_WR);
  RequireRefusal(FormRing((*listener)->fd(), options).status(), "waited");
}

}  // namespace tethys::fuzz
