#include "deploy/launcher/agent_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <utility>
#include <vector>

#include "deploy/launcher/host_agent.h"
#include "deploy/process/signal_source.h"
#include "deploy/process/subprocess.h"
#include "runtime/base/clock.h"

namespace tethys {
namespace {

// The most pieces read from a pipe after its process has ended. More pieces could only come from a child that
// outlives the process.
constexpr int kMaxLastPieces = 32;

class AgentProcess final : public HostAgent::Processes {
 public:
  explicit AgentProcess(const std::string& program) : program_(program) {}
  ~AgentProcess() override {
    // All processes are killed first and reaped afterwards.
    for (auto& [id, child] : children_) child.process.Signal(SIGKILL);
  }

  absl::Status Run() {
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO}) {
      fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    }
    while (true) {
      SendReports();
      ReadOrders();
      ReadChildren();
      HandleSignals();
      agent_.OnTime(clock_.Now());
      if (agent_.end().has_value()) return *agent_.end();
      WaitForEvents();
    }
  }

 private:
  struct Child {
    Subprocess process;
    int log;     // The log's descriptor; -1: closed.
    int output;  // The output's descriptor; -1: closed, or not read.
  };

  absl::Status Start(const proto::StartProcess& order) override {
    TETHYS_ASSIGN_OR_RETURN(
        Subprocess process,
        Subprocess::Spawn({.program = program_,
                           .arguments = {order.argument().begin(), order.argument().end()},
                           .input = order.input(),
                           .read_log = true,
                           .read_output = order.read_output()}));
    const int log = process.log(), output = process.output();
    children_.emplace(order.id(), Child{std::move(process), log, output});
    return absl::OkStatus();
  }

  void Signal(uint32_t id, int number) override { children_.at(id).process.Signal(number); }

  void WaitForEvents() {
    // poll ignores a negative descriptor.
    std::vector<pollfd> fds = {{signals_.fd(), POLLIN, 0},
                               {STDIN_FILENO, POLLIN, 0},
                               {agent_.waiting().empty() ? -1 : STDOUT_FILENO, POLLOUT, 0}};
    for (const auto& [id, child] : children_) {
      fds.push_back({child.log, POLLIN, 0});
      fds.push_back({agent_.TakesOutput() ? child.output : -1, POLLIN, 0});
    }
    poll(fds.data(), fds.size(), static_cast<int>(kAgentBeat / 2 / kMillisecond));
  }

  void SendReports() {
    while (!agent_.waiting().empty()) {
      const ssize_t sent = write(STDOUT_FILENO, agent_.waiting().data(), agent_.waiting().size());
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno == EAGAIN) return;
      if (sent < 0) return agent_.OnInputEnd();
      agent_.OnSent(static_cast<size_t>(sent));
    }
  }

  void ReadOrders() {
    char piece[16 << 10];
    while (!agent_.end().has_value()) {
      const ssize_t got = read(STDIN_FILENO, piece, sizeof(piece));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) return agent_.OnInputEnd();
      agent_.OnInput({piece, static_cast<size_t>(got)}, clock_.Now());
    }
  }

  // Returns false if no bytes are available now.
  bool ReadPiece(uint32_t id, proto::ProcessOutput::Stream stream, int& fd) {
    if (fd < 0) return false;
    char piece[HostAgent::kMaxOutput];
    ssize_t got;
    do {
      got = read(fd, piece, sizeof(piece));
    } while (got < 0 && errno == EINTR);
    if (got == 0 || (got < 0 && errno != EAGAIN)) fd = -1;
    if (got > 0) agent_.OnOutput(id, stream, {piece, static_cast<size_t>(got)});
    return got > 0;
  }

  void ReadChildren() {
    for (auto& [id, child] : children_) {
      ReadPiece(id, proto::ProcessOutput::LOG, child.log);
      if (agent_.TakesOutput()) ReadPiece(id, proto::ProcessOutput::OUTPUT, child.output);
    }
  }

  void HandleSignals() {
    bool reap = false;
    while (const int number = signals_.Next()) {
      if (number == SIGCHLD) {
        reap = true;
      } else {
        agent_.OnInputEnd();
      }
    }
    if (!reap) return;
    for (auto it = children_.begin(); it != children_.end();) {
      auto& [id, child] = *it;
      if (!child.process.Poll().has_value()) {
        ++it;
        continue;
      }
      for (int i = 0; i < kMaxLastPieces && ReadPiece(id, proto::ProcessOutput::LOG, child.log); ++i) {
      }
      for (int i = 0; i < kMaxLastPieces && ReadPiece(id, proto::ProcessOutput::OUTPUT, child.output); ++i) {
      }
      agent_.OnExit(id, *child.process.exit());
      it = children_.erase(it);
    }
  }

  const std::string program_;
  const MonotonicClock clock_;
  SignalSource signals_;
  std::map<uint32_t, Child> children_;
  HostAgent agent_{*this, clock_.Now()};
};

}  // namespace

absl::Status RunAgent(const std::string& program) {
  prctl(PR_SET_NAME, "tethys-agent");
  signal(SIGPIPE, SIG_IGN);  // A write to a broken connection then returns an error.
  return AgentProcess(program).Run();
}

}  // namespace tethys
