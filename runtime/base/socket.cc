#include "runtime/base/socket.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"

namespace tethys {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using AddressList = std::unique_ptr<addrinfo, FreeAddresses>;

absl::StatusOr<AddressList> Resolve(const HostPort& address, int flags) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &list);
  if (error != 0) {
    return absl::NotFoundError(
        absl::StrCat("cannot resolve host '", address.host, "': ", gai_strerror(error), "; check the name"));
  }
  return AddressList(list);
}

FileDescriptor OpenSocket(const addrinfo& address) {
  return FileDescriptor(
      socket(address.ai_family, address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol));
}

// Turns off Nagle's algorithm, so that headers and short vectors do not wait for an acknowledgement of
// earlier data.
void SendAtOnce(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

absl::StatusOr<HostPort> Numeric(const sockaddr_storage& address, socklen_t size) {
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  const int error = getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof(host), port,
                                sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
  if (error != 0) return absl::UnknownError(absl::StrCat("cannot print an address: ", gai_strerror(error)));
  HostPort result{.host = host};
  TETHYS_CHECK(absl::SimpleAtoi(port, &result.port));
  return result;
}

absl::Status ListenError(int error, const std::string& name) {
  if (error != EADDRNOTAVAIL) return ErrnoStatus(error, name);
  return absl::FailedPreconditionError(
      absl::StrCat(name, ": this is no address of this machine (`ip address` shows its addresses)"));
}

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

absl::StatusOr<HostPort> ParseHostPort(absl::string_view text) {
  const auto bad = [text](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not host:port: ", why));
  };
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos) return bad("there is no ':'");
  absl::string_view host = text.substr(0, colon);
  if (!host.empty() && host.front() == '[') {
    if (host.back() != ']') return bad("'[' is not closed");
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != absl::string_view::npos) {
    return bad("an IPv6 address must be in brackets, as in [::1]:4711");
  }
  if (host.empty()) return bad("the host is empty");
  HostPort address{.host = std::string(host)};
  if (!absl::SimpleAtoi(text.substr(colon + 1), &address.port) || address.port < 0 || address.port > 65535) {
    return bad("the port must be a number from 0 to 65535");
  }
  return address;
}

absl::StatusOr<HostPort> ParseListenAddress(absl::string_view text) {
  const bool bracketed = !text.empty() && text.front() == '[';
  const auto colons = std::count(text.begin(), text.end(), ':');
  if (bracketed ? text.back() != ']' : colons == 1) return ParseHostPort(text);
  const absl::string_view host = bracketed ? text.substr(1, text.size() - 2) : text;
  in6_addr parsed;
  const std::string address(host.substr(0, host.find('%')));
  if (host.empty() || (colons > 0 && inet_pton(AF_INET6, address.c_str(), &parsed) != 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", text, "' is no address to listen on; write, for example, 10.0.0.3, [fd00::3]:4711 or fd00::3"));
  }
  return HostPort{.host = std::string(host)};
}

bool IsLoopback(absl::string_view address) {
  return address.substr(0, 4) == "127." || address.substr(0, 6) == "[::1]:" ||
         address.substr(0, 10) == "localhost:";
}

std::string HostPortText(const HostPort& address) {
  const bool ipv6 = address.host.find(':') != std::string::npos;
  return ipv6 ? absl::StrCat("[", address.host, "]:", address.port)
              : absl::StrCat(address.host, ":", address.port);
}

absl::StatusOr<FileDescriptor> ListenTcp(const HostPort& address) {
  TETHYS_ASSIGN_OR_RETURN(const AddressList list, Resolve(address, AI_PASSIVE));
  const std::string name = absl::StrCat("cannot listen on ", HostPortText(address));
  absl::Status first_error;
  for (const addrinfo* each = list.get(); each != nullptr; each = each->ai_next) {
    FileDescriptor fd = OpenSocket(*each);
    // Allows a port whose last user has just ended. A port that is in use is still refused.
    const int on = 1;
    if (fd.valid()) setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (fd.valid() && bind(fd.get(), each->ai_addr, each->ai_addrlen) == 0 &&
        listen(fd.get(), SOMAXCONN) == 0) {
      return fd;
    }
    if (first_error.ok()) first_error = ListenError(errno, name);
  }
  return first_error;
}

absl::Status CheckListen(const HostPort& address) { return ListenTcp(address).status(); }

absl::StatusOr<FileDescriptor> AcceptTcp(int listener) {
  FileDescriptor fd(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd.valid()) {
    SendAtOnce(fd.get());
    return fd;
  }
  // ECONNABORTED: the peer gave up before its connection was accepted, which is no error of the listener.
  if (WouldBlock(errno) || errno == ECONNABORTED) return FileDescriptor();
  return ErrnoStatus(errno, "cannot accept a connection");
}

absl::StatusOr<FileDescriptor> StartConnectTcp(const HostPort& address) {
  TETHYS_ASSIGN_OR_RETURN(const AddressList list, Resolve(address, 0));
  const std::string name = absl::StrCat("cannot connect to ", HostPortText(address));
  FileDescriptor fd = OpenSocket(*list);
  if (!fd.valid()) return ErrnoStatus(errno, name);
  SendAtOnce(fd.get());
  if (connect(fd.get(), list->ai_addr, list->ai_addrlen) != 0 && errno != EINPROGRESS) {
    return ErrnoStatus(errno, name);
  }
  return fd;
}

absl::Status ConnectResult(int fd) {
  int error = 0;
  socklen_t size = sizeof(error);
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  return error == 0 ? absl::OkStatus() : ErrnoStatus(error, "cannot connect");
}

absl::StatusOr<HostPort> LocalAddress(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return ErrnoStatus(errno, "a socket has no address");
  }
  return Numeric(address, size);
}

void ShutDownConnectionsTo(const HostPort& address) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir("/proc/self/fd"), closedir);
  if (directory == nullptr) return;
  while (const dirent* const entry = readdir(directory.get())) {
    int fd = -1;
    sockaddr_storage peer = {};
    socklen_t size = sizeof(peer);
    if (!absl::SimpleAtoi(entry->d_name, &fd)) continue;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    if (peer.ss_family != AF_INET && peer.ss_family != AF_INET6) continue;
    const absl::StatusOr<HostPort> numeric = Numeric(peer, size);
    // A library may use an IPv6 socket for an IPv4 connection. The address of the peer then begins with
    // kMapped.
    constexpr absl::string_view kMapped = "::ffff:";
    if (!numeric.ok() || numeric->port != address.port) continue;
    if (numeric->host == address.host || numeric->host == absl::StrCat(kMapped, address.host)) {
      shutdown(fd, SHUT_RDWR);
    }
  }
}

void SetSendBuffer(int fd, int bytes) { setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)); }

absl::StatusOr<int64_t> SendSome(int fd, absl::Span<iovec> parts) {
  msghdr message = {};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
  if (sent >= 0) return sent;
  if (WouldBlock(errno)) return 0;
  return ErrnoStatus(errno, "cannot send");
}

absl::StatusOr<int64_t> ReceiveSome(int fd, absl::Span<iovec> parts) {
  msghdr message = {};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const ssize_t received = recvmsg(fd, &message, 0);
  if (received > 0) return received;
  if (received == 0) return absl::UnavailableError("the connection was closed");
  if (WouldBlock(errno)) return 0;
  return ErrnoStatus(errno, "cannot receive");
}

absl::StatusOr<WakeUp> WakeUp::Create() {
  FileDescriptor fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot create an eventfd");
  return WakeUp(std::move(fd));
}

void WakeUp::Signal() const {
  const uint64_t one = 1;
  // The write fails only if the counter is full, and then the descriptor polls readable already.
  [[maybe_unused]] const ssize_t written = write(fd_.get(), &one, sizeof(one));
}

}  // namespace tethys
