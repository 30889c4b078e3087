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
#include "runtime/base/socket.h"
#include "runtime/cluster/handshake.h"

namespace tethys {
namespace {

constexpr size_t kMostConnections = 16;
constexpr Nanoseconds kMostTime = 10 * kSecond;  // Of a connection, whatever it does.

// One request and its answer. After the answer, the other side is read until it closes the connection:
// closing first would reset it if it has sent more, and the answer might be lost.
class Connection {
 public:
  Connection(FileDescriptor fd, Nanoseconds deadline) : fd_(std::move(fd)), deadline_(deadline) {}

  int fd() const { return fd_.get(); }
  bool open() const { return fd_.valid(); }
  Nanoseconds deadline() const { return deadline_; }
  void Close() { fd_.Close(); }
  int16_t events() const { return stage_ == Stage::kAnswering ? POLLOUT : POLLIN; }

  // Goes on as far as it can without waiting; `answer` is called once, with the parsed request.
  void Advance(const std::function<std::string(const HttpParse&)>& answer) {
    if (stage_ == Stage::kReading) Read(answer);
    if (open() && stage_ == Stage::kAnswering) Write();
    if (open() && stage_ == Stage::kEnding) Discard();
  }

 private:
  enum class Stage { kReading, kAnswering, kEnding };

  // The bytes received, at most `size`; -1: none for now. Closes the connection at its end.
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
  Nanoseconds deadline_;
  Stage stage_ = Stage::kReading;
  std::string text_;  // The request, then the answer.
  size_t sent_ = 0;
};

class LoopbackServer final : public LiveServer {
 public:
  LoopbackServer(FileDescriptor listener, int port, const std::string& run_dir, const std::string& job,
                 const std::string& token, absl::optional<proto::Expectation> expectation)
      : listener_(std::move(listener)),
        port_(port),
        run_(run_dir, job, std::move(expectation)),
        pages_(run_, token, port) {}

  int port() const override { return port_; }

  absl::Status Serve(int stop) override {
    while (true) {
      std::vector<pollfd> fds = {{stop, POLLIN, 0}};
      // Callers beyond the limit wait in the queue of the system.
      fds.push_back({connections_.size() < kMostConnections ? listener_.get() : -1, POLLIN, 0});
      for (const Connection& connection : connections_)
        fds.push_back({connection.fd(), connection.events(), 0});
      if (poll(fds.data(), fds.size(), MillisecondsLeft()) < 0 && errno != EINTR) {
        return ErrnoStatus(errno, "poll");
      }
      if (fds[0].revents != 0) return absl::OkStatus();
      for (size_t i = 0; i < connections_.size(); ++i) {
        if (fds[i + 2].revents != 0)
          connections_[i].Advance([this](const HttpParse& parse) { return Answer(parse); });
        if (clock_.Now() >= connections_[i].deadline()) connections_[i].Close();
      }
      std::erase_if(connections_, [](const Connection& connection) { return !connection.open(); });
      if (fds[1].revents != 0) Accept();
    }
  }

 private:
  int MillisecondsLeft() const {
    if (connections_.empty()) return -1;
    Nanoseconds first = connections_[0].deadline();
    for (const Connection& connection : connections_) first = std::min(first, connection.deadline());
    return static_cast<int>(std::max<Nanoseconds>(first - clock_.Now(), 0) / kMillisecond) + 1;
  }
  std::string Answer(const HttpParse& parse) { return pages_.Answer(parse, JobToken::Random().ToHex()); }
  void Accept() {
    // An error concerns the caller, who may have gone; the listener goes on.
    absl::StatusOr<FileDescriptor> caller = AcceptTcp(listener_.get());
    if (caller.ok() && caller->valid())
      connections_.emplace_back(*std::move(caller), clock_.Now() + kMostTime);
  }

  const FileDescriptor listener_;
  const int port_;
  const MonotonicClock clock_;
  WatchedRun run_;
  LivePages pages_;
  std::vector<Connection> connections_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LiveServer>> LiveServer::Create(const std::string& run_dir,
                                                               const std::string& job,
                                                               const std::string& token, int port) {
  TETHYS_RETURN_IF_ERROR(CheckWatchable(run_dir));
  absl::optional<proto::Expectation> expectation;
  if (absl::StatusOr<proto::Expectation> read = ReadExpectation(run_dir); read.ok()) {
    expectation = *std::move(read);
  } else if (!absl::IsNotFound(read.status())) {
    return read.status();
  }
  absl::StatusOr<FileDescriptor> listener = ListenTcp({"127.0.0.1", port});
  if (!listener.ok()) {
    return Annotate(listener.status(),
                    absl::StrCat("port ", port, ": choose another by --port, or leave it out"));
  }
  TETHYS_ASSIGN_OR_RETURN(const HostPort address, LocalAddress(listener->get()));
  return std::make_unique<LoopbackServer>(*std::move(listener), address.port, run_dir, job, token,
                                          std::move(expectation));
}

}  // namespace tethys
