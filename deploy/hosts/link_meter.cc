#include "deploy/hosts/link_meter.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/accept_pause.h"
#include "runtime/base/clock.h"
#include "runtime/base/quantile.h"
#include "runtime/base/thread.h"

namespace tethys {
namespace {

constexpr Nanoseconds kStreamTime = kSecond / 2;
constexpr Nanoseconds kWarmUp = kSecond / 10;
constexpr Nanoseconds kDeadline = 10 * kSecond;
constexpr Nanoseconds kHandshakeDeadline = 2 * kSecond;
constexpr int kRoundTrips = 20;
constexpr int kBlocks = 5;
// Further blocks are sent only within this time after the first pause has begun.
constexpr Nanoseconds kBlockTime = kSecond;
constexpr auto kPause = std::chrono::milliseconds(20);  // After this pause, a link accepts a burst again.
constexpr uint32_t kMaxHandshakeBytes = 4096;
constexpr size_t kPieceBytes = 128 << 10;
// The limit of unsent bytes in the socket: so low that even a slow link is empty soon after the last write.
constexpr int kMaxUnsentBytes = 128 << 10;

// A connected socket with a deadline; every wait also ends when `stop` becomes readable.
class Wire {
 public:
  Wire(FileDescriptor fd, Nanoseconds time, int stop)
      : fd_(std::move(fd)), deadline_(clock_.Now() + time), stop_(stop) {
    setsockopt(fd_.get(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kMaxUnsentBytes, sizeof(kMaxUnsentBytes));
  }

  int fd() const { return fd_.get(); }
  void Extend(Nanoseconds time) { deadline_ = clock_.Now() + time; }

  absl::Status Wait(short events) {
    pollfd fds[] = {{fd_.get(), events, 0}, {stop_, POLLIN, 0}};
    const Nanoseconds left = std::max<Nanoseconds>(0, deadline_ - clock_.Now());
    const int ready = poll(fds, 2, static_cast<int>(left / kMillisecond) + 1);
    if (fds[1].revents != 0) return absl::CancelledError("the listener ends");
    if (ready == 0) return absl::DeadlineExceededError("measuring the link took too long");
    return absl::OkStatus();
  }

  absl::Status Send(const void* data, size_t size) {
    iovec part{const_cast<void*>(data), size};
    while (part.iov_len > 0) {
      TETHYS_ASSIGN_OR_RETURN(const int64_t moved, SendSome(fd_.get(), {&part, 1}));
      part = {static_cast<char*>(part.iov_base) + moved, part.iov_len - moved};
      if (moved == 0) TETHYS_RETURN_IF_ERROR(Wait(POLLOUT));
    }
    return absl::OkStatus();
  }

  absl::Status Receive(void* data, size_t size) {
    iovec part{data, size};
    while (part.iov_len > 0) {
      TETHYS_ASSIGN_OR_RETURN(const int64_t moved, ReceiveSome(fd_.get(), {&part, 1}));
      part = {static_cast<char*>(part.iov_base) + moved, part.iov_len - moved};
      if (moved == 0) TETHYS_RETURN_IF_ERROR(Wait(POLLIN));
    }
    return absl::OkStatus();
  }

  // Sends as many bytes as possible in kStreamTime, then shuts this side down.
  absl::Status SendStream() {
    const std::vector<char> piece(kPieceBytes);
    const Nanoseconds end = clock_.Now() + kStreamTime;
    while (clock_.Now() < end) TETHYS_RETURN_IF_ERROR(Send(piece.data(), piece.size()));
    shutdown(fd_.get(), SHUT_WR);
    return absl::OkStatus();
  }

  // Receives until the other side shuts down; returns bytes per second.
  absl::StatusOr<double> ReceiveStream() {
    std::vector<char> piece(kPieceBytes);
    const Nanoseconds begin = clock_.Now();
    Nanoseconds counted_from = begin;
    Nanoseconds last = begin;
    int64_t all = 0;
    int64_t bytes = 0;  // Bytes received since counted_from.
    while (true) {
      iovec part{piece.data(), piece.size()};
      const absl::StatusOr<int64_t> moved = ReceiveSome(fd_.get(), {&part, 1});
      if (absl::IsUnavailable(moved.status())) break;
      TETHYS_RETURN_IF_ERROR(moved.status());
      if (*moved == 0) {
        TETHYS_RETURN_IF_ERROR(Wait(POLLIN));
        continue;
      }
      last = clock_.Now();
      all += *moved;
      bytes += *moved;
      if (counted_from == begin && last - begin >= kWarmUp) {
        counted_from = last;
        bytes = 0;
      }
    }
    if (bytes == 0) {  // The link is so slow that nothing arrived after the warm-up.
      bytes = all;
      counted_from = begin;
    }
    if (bytes == 0 || last <= counted_from) return absl::UnavailableError("the connection broke");
    return static_cast<double>(bytes) / ToSeconds(last - counted_from);
  }

 private:
  const MonotonicClock clock_;
  FileDescriptor fd_;
  Nanoseconds deadline_;
  const int stop_;
};

absl::Status ProveOurselves(const JobSecret& secret, Wire& wire) {
  uint64_t nonce = 0;
  TETHYS_RETURN_IF_ERROR(wire.Receive(&nonce, sizeof(nonce)));
  proto::Handshake handshake;
  handshake.set_job_id(secret.job_id);
  CompleteHandshake(secret.token, nonce, handshake);
  const std::string bytes = handshake.SerializeAsString();
  const uint32_t size = bytes.size();
  TETHYS_RETURN_IF_ERROR(wire.Send(&size, sizeof(size)));
  return wire.Send(bytes.data(), bytes.size());
}

// Returns LinkSpeed::block: the time of a block, without the time that the answer needs (half a round trip).
absl::StatusOr<double> SendBlocks(double round_trip, const Clock& clock, Wire& wire) {
  const std::vector<char> block(kBlockBytes);
  std::vector<double> seconds;
  const Nanoseconds end = clock.Now() + kBlockTime;
  char more = 1;
  while (static_cast<int>(seconds.size()) < kBlocks && (seconds.empty() || clock.Now() < end)) {
    std::this_thread::sleep_for(kPause);
    const Nanoseconds begin = clock.Now();
    TETHYS_RETURN_IF_ERROR(wire.Send(&more, 1));
    TETHYS_RETURN_IF_ERROR(wire.Send(block.data(), block.size()));
    char answer = 0;
    TETHYS_RETURN_IF_ERROR(wire.Receive(&answer, 1));
    seconds.push_back(std::max(0.0, ToSeconds(clock.Now() - begin) - round_trip / 2));
  }
  more = 0;
  TETHYS_RETURN_IF_ERROR(wire.Send(&more, 1));
  return Median(std::move(seconds));
}

absl::Status CheckCaller(const JobSecret& secret, Wire& wire) {
  const uint64_t nonce = RandomNonce();
  TETHYS_RETURN_IF_ERROR(wire.Send(&nonce, sizeof(nonce)));
  uint32_t size = 0;
  TETHYS_RETURN_IF_ERROR(wire.Receive(&size, sizeof(size)));
  if (size > kMaxHandshakeBytes) return absl::UnauthenticatedError("no handshake");
  std::string bytes(size, '\0');
  TETHYS_RETURN_IF_ERROR(wire.Receive(bytes.data(), bytes.size()));
  proto::Handshake handshake;
  if (!handshake.ParseFromString(bytes)) return absl::UnauthenticatedError("no handshake");
  return CheckHandshake(secret.token, nonce, {.job_id = secret.job_id}, handshake);
}

absl::Status Serve(const JobSecret& secret, Wire& wire) {
  TETHYS_RETURN_IF_ERROR(CheckCaller(secret, wire));
  wire.Extend(kDeadline);
  char byte = 0;
  for (int i = 0; i < kRoundTrips; ++i) {
    TETHYS_RETURN_IF_ERROR(wire.Receive(&byte, 1));
    TETHYS_RETURN_IF_ERROR(wire.Send(&byte, 1));
  }
  std::vector<char> block(kBlockBytes);
  while (true) {
    TETHYS_RETURN_IF_ERROR(wire.Receive(&byte, 1));
    if (byte == 0) break;
    TETHYS_RETURN_IF_ERROR(wire.Receive(block.data(), block.size()));
    TETHYS_RETURN_IF_ERROR(wire.Send(&byte, 1));
  }
  TETHYS_ASSIGN_OR_RETURN(const double arrived, wire.ReceiveStream());
  TETHYS_RETURN_IF_ERROR(wire.Send(&arrived, sizeof(arrived)));
  return wire.SendStream();
}

class ThreadedListener final : public LinkListener {
 public:
  ThreadedListener(JobSecret secret, FileDescriptor listener, HostPort address, WakeUp stop,
                   const Clock* clock)
      : secret_(std::move(secret)),
        listener_(std::move(listener)),
        address_(std::move(address)),
        stop_(std::move(stop)),
        pause_(clock != nullptr ? *clock : machine_clock_) {}
  absl::Status Start() {
    return thread_.Start([this] { Run(); });
  }
  ~ThreadedListener() override {
    stop_.Signal();
    thread_.Join();
  }
  const HostPort& address() const override { return address_; }

 private:
  void Run() {
    while (true) {
      pollfd fds[] = {{pause_.active() ? -1 : listener_.get(), POLLIN, 0}, {stop_.fd(), POLLIN, 0}};
      poll(fds, 2, pause_.MillisecondsLeft());
      if (fds[1].revents != 0) return;
      if (fds[0].revents == 0) continue;
      FileDescriptor caller = pause_.Accept(listener_.get());
      if (!caller.valid()) continue;
      Wire wire(std::move(caller), kHandshakeDeadline, stop_.fd());
      Serve(secret_, wire).IgnoreError();  // The caller sees the connection close and reports it.
    }
  }

  const JobSecret secret_;
  const FileDescriptor listener_;
  const HostPort address_;
  const WakeUp stop_;
  const MonotonicClock machine_clock_;
  AcceptPause pause_;
  Thread thread_;  // Declared last, because the thread uses the other members.
};

}  // namespace

double BurstBytes(const LinkSpeed& speed) {
  const auto size = static_cast<double>(kBlockBytes);
  return std::clamp(size - (speed.block - speed.round_trip / 2) * speed.there, 0.0, size / 2);
}

absl::StatusOr<std::unique_ptr<LinkListener>> LinkListener::Start(const JobSecret& secret,
                                                                  const std::string& host,
                                                                  const Clock* clock) {
  TETHYS_ASSIGN_OR_RETURN(FileDescriptor listener, ListenTcp({.host = host, .port = 0}));
  TETHYS_ASSIGN_OR_RETURN(const HostPort address, LocalAddress(listener.get()));
  TETHYS_ASSIGN_OR_RETURN(WakeUp stop, WakeUp::Create());
  auto threaded =
      std::make_unique<ThreadedListener>(secret, std::move(listener), address, std::move(stop), clock);
  TETHYS_RETURN_IF_ERROR(threaded->Start());
  return std::unique_ptr<LinkListener>(std::move(threaded));
}

absl::StatusOr<LinkSpeed> MeasureLink(const JobSecret& secret, const HostPort& listener) {
  const MonotonicClock clock;
  TETHYS_ASSIGN_OR_RETURN(FileDescriptor fd, StartConnectTcp(listener));
  Wire wire(std::move(fd), kDeadline, -1);
  TETHYS_RETURN_IF_ERROR(wire.Wait(POLLOUT));
  TETHYS_RETURN_IF_ERROR(ConnectResult(wire.fd()));
  TETHYS_RETURN_IF_ERROR(ProveOurselves(secret, wire));
  LinkSpeed speed{.round_trip = ToSeconds(kDeadline)};
  for (int i = 0; i < kRoundTrips; ++i) {
    char byte = 0;
    const Nanoseconds begin = clock.Now();
    TETHYS_RETURN_IF_ERROR(wire.Send(&byte, 1));
    TETHYS_RETURN_IF_ERROR(wire.Receive(&byte, 1));
    speed.round_trip = std::min(speed.round_trip, ToSeconds(clock.Now() - begin));
  }
  TETHYS_ASSIGN_OR_RETURN(speed.block, SendBlocks(speed.round_trip, clock, wire));
  TETHYS_RETURN_IF_ERROR(wire.SendStream());
  TETHYS_RETURN_IF_ERROR(wire.Receive(&speed.there, sizeof(speed.there)));
  TETHYS_ASSIGN_OR_RETURN(speed.back, wire.ReceiveStream());
  if (!std::isfinite(speed.there) || speed.there <= 0)
    return absl::UnavailableError("the link listener did not answer with a rate");
  return speed;
}

}  // namespace tethys
