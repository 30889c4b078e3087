// TCP sockets that never block, for data that does not go over gRPC. Descriptors are non-blocking and
// close-on-exec; only the functions that look up a host name block. Stateless, so thread-safe for different
// descriptors.
#ifndef TETHYS_RUNTIME_BASE_SOCKET_H_
#define TETHYS_RUNTIME_BASE_SOCKET_H_

#include <sys/uio.h>

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "runtime/base/file.h"
#include "runtime/base/status.h"

namespace tethys {

struct HostPort {
  std::string host;
  int port = 0;
  bool operator==(const HostPort&) const = default;
};

// Parses a text such as "10.0.0.3:4711", "node3:4711" or "[::1]:4711". InvalidArgument quotes the text and
// says what is wrong with it.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view text);
std::string HostPortText(const HostPort& address);
// Like ParseHostPort, but the text may lack the port (the result then has port 0), and an IPv6 address
// without a port needs no brackets: "10.0.0.3", "fd00::3", "[fd00::3]", "[fd00::3]:4711".
absl::StatusOr<HostPort> ParseListenAddress(absl::string_view text);
// True if data sent to this address ("127.0.0.1:4711", "[::1]:4711") never leave the machine.
bool IsLoopback(absl::string_view address);

// A bound, listening socket at the first of the host's addresses at which this machine can listen; port 0
// lets the system choose a port. AlreadyExists: the port is taken. FailedPrecondition: the host is not this
// machine.
absl::StatusOr<FileDescriptor> ListenTcp(const HostPort& address);
// OK if ListenTcp would succeed now, otherwise the error of ListenTcp. Call this before a library listens, if
// the errors of the library are less precise.
absl::Status CheckListen(const HostPort& address);
// Returns an invalid descriptor when no connection is pending.
absl::StatusOr<FileDescriptor> AcceptTcp(int listener);
// Starts to connect. Once the descriptor polls writable, ConnectResult returns the outcome.
absl::StatusOr<FileDescriptor> StartConnectTcp(const HostPort& address);
absl::Status ConnectResult(int fd);

// The numeric address that the socket is bound to.
absl::StatusOr<HostPort> LocalAddress(int fd);

// Shuts down all TCP connections of this process to `address`, whose host must be numeric. Needed if a
// library waits for a peer that receives no data, and the library has no function to give up the connection.
// No-op if the host of `address` is a name.
void ShutDownConnectionsTo(const HostPort& address);

// Requests a send buffer of `bytes`; the system may grant less.
void SetSendBuffer(int fd, int bytes);

// Send or receive as much as possible without blocking, and return the number of bytes that were moved, which
// is 0 if the call would block. Unavailable when the other side has closed or reset the connection.
absl::StatusOr<int64_t> SendSome(int fd, absl::Span<iovec> parts);
absl::StatusOr<int64_t> ReceiveSome(int fd, absl::Span<iovec> parts);

// Wakes a thread that polls `fd()`. Any thread may call Signal.
class WakeUp {
 public:
  static absl::StatusOr<WakeUp> Create();
  int fd() const { return fd_.get(); }
  // Makes the descriptor readable, so that poll returns at once from now on.
  void Signal() const;

 private:
  explicit WakeUp(FileDescriptor fd) : fd_(std::move(fd)) {}
  FileDescriptor fd_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_SOCKET_H_
