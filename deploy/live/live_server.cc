#include "deploy/live/live_server.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/live/expectation_file.h"
#include "runtime/base/accept_pause.h"
#include "runtime/base/socket.h"
#include "runtime/cluster/handshake.h"

namespace tethys {
namespace {

constexpr int kMostConnections = 16;             // The most connections to each of the two addresses.
constexpr Nanoseconds kMostTime = 10 * kSecond;  // The longest lifetime of a connection, busy or idle.
constexpr Nanoseconds kRequestTime = kSecond;    // The longest time until a connection's request is complete.

// The address at which a caller connected.
enum class Door { kView, kMetrics };

// A connection, which serves one request. After the answer, the connection is read until the other side
// closes it: if this side closed it before reading everything that the other side sent, the system would
// reset the connection, and the answer might be lost.
class Connection {
 public:
  Connection(FileDescriptor fd, Door door, Nanoseconds now)
      : fd_(std::move(fd)), door_(door), accepted_(now) {}

  Door door() const { return door_; }
  int fd() const { return fd_.get(); }
  bool open() const { return fd_.valid(); }
  bool asking() const { return stage_ == Stage::kReading; }  // True while the request is incomplete.
  Nanoseconds deadline() const { return accepted_ + (asking() ? kRequestTime : kMostTime); }
  void Close() { fd_.Close(); }
  int16_t events() const { return stage_ == Stage::kAnswering ? POLLOUT : POLLIN; }

  // Advances as far as possible without blocking. `answer` is called once, with the parsed request.
  void Advance(const std::function<std::string(const HttpParse&)>& answer) {
    if (stage_ == Stage::kReading) Read(answer);
    if (open() && stage_ == Stage::kAnswering) Write();
    if (open() && stage_ == Stage::kEnding) Discard();
  }

 private:
  enum class Stage { kReading, kAnswering, kEnding };

  // Returns the number of bytes received, at most `size`; -1 if no bytes have arrived. Closes the connection
  // at end of file and on errors.
  ssize_t Receive(char* bytes, size_t size) {
    const ssize_t got = recv(fd(), bytes, size, MSG_DONTWAIT);
    if (got > 0) return got;
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) Close();
    return -1;
  }
  void Read(const std::function<std::string(const HttpParse&)>& answer) {
    char bytes[kMostRequestBytes];
    const ssize_t got = Receive(bytes, kMostRequestBytes - text_.size());
    if (got < 0) return;
    text_.append(bytes, static_cast<size_t>(got));
    const HttpParse parse = ParseHttpRequest(text_);
    if (!parse.complete) return;
    text_ = answer(parse);
    stage_ = Stage::kAnswering;
  }
  void Write() {
    const ssize_t sent = send(fd(), text_.data() + sent_, text_.size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno != EAGAIN && errno != EINTR) Close();
      return;
    }
    sent_ += static_cast<size_t>(sent);
    if (sent_ < text_.size()) return;
    shutdown(fd(), SHUT_WR);
    stage_ = Stage::kEnding;
  }
  void Discard() {
    char bytes[4096];
    Receive(bytes, sizeof(bytes));
  }

  FileDescriptor fd_;
  Door door_;
  Nanoseconds accepted_;
  Stage stage_ = Stage::kReading;
  std::string text_;  // First the request, then the answer.
  size_t sent_ = 0;
};

class TcpLiveServer final : public LiveServer {
 public:
  // `metrics`: the listening socket for metrics; invalid if there is none.
  TcpLiveServer(FileDescriptor view, int port, FileDescriptor metrics,
                absl::optional<HostPort> metrics_address, const LiveServerOptions& options)
      : view_(std::move(view)),
        metrics_(std::move(metrics)),
        port_(port),
        metrics_address_(std::move(metrics_address)),
        clock_(options.clock != nullptr ? *options.clock : machine_clock_),
        run_(options.run_dir, options.job, options.find_left),
        pages_(run_, options.token, port, options.metrics_token) {}

  int port() const override { return port_; }
  const absl::optional<HostPort>& metrics_address() const override { return metrics_address_; }

  absl::Status Serve(int stop) override {
    while (true) {
      // If as many connections as allowed have complete requests, further callers wait in the system's queue.
      std::vector<pollfd> fds = {{stop, POLLIN, 0},
                                 {Accepts(Door::kView) ? view_.get() : -1, POLLIN, 0},
                                 {Accepts(Door::kMetrics) ? metrics_.get() : -1, POLLIN, 0}};
      for (const Connection& connection : connections_)
        fds.push_back({connection.fd(), connection.events(), 0});
      if (poll(fds.data(), fds.size(), MillisecondsLeft()) < 0 && errno != EINTR) {
        return ErrnoStatus(errno, "poll");
      }
      if (fds[0].revents != 0) return absl::OkStatus();
      for (size_t i = 0; i < connections_.size(); ++i) {
        Connection& connection = connections_[i];
        if (fds[i + 3].revents != 0) {
          connection.Advance([&](const HttpParse& parse) { return Answer(connection.door(), parse); });
        }
        if (clock_.Now() >= connection.deadline()) connection.Close();
      }
      const auto closed = [](const Connection& connection) { return !connection.open(); };
      if (std::erase_if(connections_, closed) > 0) pause_.End();
      if (fds[1].revents != 0) Accept(Door::kView, view_.get());
      if (fds[2].revents != 0) Accept(Door::kMetrics, metrics_.get());
    }
  }

 private:
  bool Accepts(Door door) const {
    if (pause_.active()) return false;
    const auto stays = [&](const Connection& connection) {
      return connection.door() == door && !connection.asking();
    };
    return std::count_if(connections_.begin(), connections_.end(), stays) < kMostConnections;
  }
  // Callers need no token to connect, so idle connections must not keep other callers out: if there are too
  // many connections, the connection that has waited longest without a request is dropped.
  void MakeRoom(Door door) {
    const auto through = [&](const Connection& connection) { return connection.door() == door; };
    if (std::count_if(connections_.begin(), connections_.end(), through) < kMostConnections) return;
    const auto oldest = std::find_if(
        connections_.begin(), connections_.end(),
        [&](const Connection& connection) { return connection.door() == door && connection.asking(); });
    if (oldest != connections_.end()) connections_.erase(oldest);
  }
  int MillisecondsLeft() const {
    const int paused = pause_.MillisecondsLeft();
    if (connections_.empty()) return paused;
    Nanoseconds first = connections_[0].deadline();
    for (const Connection& connection : connections_) first = std::min(first, connection.deadline());
    const int left = static_cast<int>(std::max<Nanoseconds>(first - clock_.Now(), 0) / kMillisecond) + 1;
    return paused < 0 ? left : std::min(left, paused);
  }
  std::string Answer(Door door, const HttpParse& parse) {
    const std::string nonce = JobToken::Random().ToHex();
    return door == Door::kView ? pages_.Answer(parse, nonce) : pages_.AnswerForMetrics(parse, nonce);
  }
  void Accept(Door door, int listener) {
    FileDescriptor caller = pause_.Accept(listener);
    if (!caller.valid()) return;
    MakeRoom(door);
    connections_.emplace_back(std::move(caller), door, clock_.Now());
  }

  const FileDescriptor view_, metrics_;
  const int port_;
  const absl::optional<HostPort> metrics_address_;
  const MonotonicClock machine_clock_;
  const Clock& clock_;
  WatchedRun run_;
  LivePages pages_;
  std::vector<Connection> connections_;
  AcceptPause pause_{clock_};  // The pause after a failed accept. It also ends when a connection closes.
};

absl::StatusOr<FileDescriptor> ListenAt(const HostPort& address, const char* remedy) {
  absl::StatusOr<FileDescriptor> listener = ListenTcp(address);
  if (listener.ok()) return listener;
  return absl::Status(listener.status().code(), absl::StrCat(listener.status().message(), ": ", remedy));
}

}  // namespace

absl::StatusOr<std::unique_ptr<LiveServer>> LiveServer::Create(const LiveServerOptions& options) {
  TETHYS_RETURN_IF_ERROR(CheckWatchable(options.run_dir));
  const absl::Status expectation = ReadExpectation(options.run_dir).status();
  if (!expectation.ok() && !absl::IsNotFound(expectation)) return expectation;
  TETHYS_ASSIGN_OR_RETURN(
      FileDescriptor view,
      ListenAt({"127.0.0.1", options.port}, "choose another port by --port, or leave --port out"));
  TETHYS_ASSIGN_OR_RETURN(const HostPort address, LocalAddress(view.get()));
  FileDescriptor metrics;
  absl::optional<HostPort> metrics_address;
  if (options.metrics_address.has_value()) {
    TETHYS_ASSIGN_OR_RETURN(
        metrics, ListenAt(*options.metrics_address,
                          "choose another address of this machine, or port, by --metrics_address"));
    TETHYS_ASSIGN_OR_RETURN(metrics_address, LocalAddress(metrics.get()));
  }
  return std::make_unique<TcpLiveServer>(std::move(view), address.port, std::move(metrics),
                                         std::move(metrics_address), options);
}

}  // namespace tethys
