#include "deploy/launcher/agent_connection.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "runtime/base/clock.h"

namespace tethys {
namespace {

constexpr size_t kPieceBytes = 16 << 10;
// The most pieces that one call of Advance reads, so that a flood of output from one host does not delay
// other hosts.
constexpr int kMaxPieces = 16;
constexpr size_t kMaxErrors = 1 << 10;
constexpr size_t kMostReason = 1024;  // The most bytes kept of ProcessExited::reason.
// If a signal killed a shell's child, the shell exits with this status plus the signal's number.
constexpr int kShellSignalBase = 128;

// Ignores errors: a log that cannot be written is no reason to end the job.
void AppendTo(const std::string& path, absl::string_view bytes) {
  const FileDescriptor log(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (log.valid()) WriteFully(log.get(), bytes.data(), bytes.size(), path).IgnoreError();
}

// Reads the bytes available, at most kPieceBytes. Returns an empty view if no bytes have arrived, or if the
// stream has ended; only in the second case is `*ended` true.
absl::string_view ReadPiece(int fd, char* buffer, bool* ended = nullptr) {
  ssize_t got;
  do {
    got = read(fd, buffer, kPieceBytes);
  } while (got < 0 && errno == EINTR);
  if (ended != nullptr) *ended = got == 0 || (got < 0 && errno != EAGAIN);
  return got > 0 ? absl::string_view(buffer, got) : absl::string_view();
}

}  // namespace

absl::StatusOr<std::unique_ptr<AgentConnection>> AgentConnection::Open(const Place& place,
                                                                       const std::string& job_id,
                                                                       const std::string& error_path) {
  SpawnOptions spawn = CommandAt(place, {"agent", "--job_id=" + job_id});
  spawn.read_output = true;
  spawn.read_log = true;
  TETHYS_ASSIGN_OR_RETURN(Subprocess ssh, Subprocess::Spawn(spawn));
  fcntl(ssh.input(), F_SETFL, O_NONBLOCK);
  return std::unique_ptr<AgentConnection>(new AgentConnection(std::move(ssh), error_path));
}

absl::StatusOr<uint32_t> AgentConnection::Start(proto::StartProcess start,
                                                const std::shared_ptr<RemoteProcess>& process) {
  proto::AgentOrder order;
  start.set_id(last_id_ + 1);
  *order.mutable_start() = std::move(start);
  TETHYS_RETURN_IF_ERROR(Send(order));
  processes_[++last_id_] = process;
  return last_id_;
}

void AgentConnection::Signal(uint32_t id, int number) {
  if (processes_.count(id) == 0) return;
  proto::AgentOrder order;
  order.mutable_signal()->set_id(id);
  order.mutable_signal()->set_number(number);
  Send(order).IgnoreError();  // Send fails only if an order is too long.
}

absl::Status AgentConnection::Send(const proto::AgentOrder& order) {
  TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> frames, FramesOf(order));
  frames_.insert(frames_.end(), frames.begin(), frames.end());
  WriteOrders();
  return absl::OkStatus();
}

// A write to a pipe writes the whole frame or fails (agent_frames.h).
void AgentConnection::WriteOrders() {
  while (!frames_.empty() && ssh_.Say(frames_.front())) frames_.pop_front();
}

void AgentConnection::Advance(Nanoseconds now) {
  if (lost_) {
    ssh_.Poll();
    return;
  }
  WriteOrders();
  // The end of ssh is polled before its output is read: if ssh has ended, all of its output can be read now.
  const bool ended = ssh_.Poll().has_value();
  ReadErrors();
  ReadReports(now, ended ? INT_MAX : kMaxPieces);
  if (ended) {
    Lose(LastWords());
  } else if (reports_.greeted() && now - last_heard_ > kAgentSilence) {
    Lose(absl::StrFormat("the agent on its host has reported nothing for %.0f s",
                         ToSeconds(now - last_heard_)));
  }
}

void AgentConnection::ReadErrors() {
  char buffer[kPieceBytes];
  absl::string_view piece;
  while (!(piece = ReadPiece(ssh_.log(), buffer)).empty()) {
    AppendTo(error_path_, piece);
    absl::StrAppend(&errors_, piece);
    if (errors_.size() > kMaxErrors) errors_.erase(0, errors_.size() - kMaxErrors);
  }
}

void AgentConnection::ReadReports(Nanoseconds now, int pieces) {
  char buffer[kPieceBytes];
  absl::string_view piece;
  for (int i = 0; i < pieces && !(piece = ReadPiece(ssh_.output(), buffer)).empty(); ++i) {
    last_heard_ = now;
    reports_.Append(piece);
    while (!lost_) {
      const absl::StatusOr<std::optional<std::string>> message = reports_.Next();
      const absl::Status status = message.ok() && message->has_value() ? Take(**message) : message.status();
      if (!status.ok()) Lose(absl::StrCat("the agent on its host sent ", status.message()));
      if (!message.ok() || !message->has_value()) break;
    }
  }
}

absl::Status AgentConnection::Take(const std::string& message) {
  proto::AgentReport report;
  if (!report.ParseFromString(message)) return absl::InvalidArgumentError("bytes that are not a report");
  if (report.has_output()) TakeOutput(report.output());
  if (report.has_exited()) TakeExit(report.exited());
  return absl::OkStatus();
}

void AgentConnection::TakeOutput(const proto::ProcessOutput& output) {
  const auto found = processes_.find(output.id());
  if (found == processes_.end()) return;
  if (output.stream() == proto::ProcessOutput::LOG) {
    AppendTo(found->second->log_path, output.data());
  } else {
    found->second->lines.Append(output.data());
  }
}

void AgentConnection::TakeExit(const proto::ProcessExited& exited) {
  const auto found = processes_.find(exited.id());
  if (found == processes_.end()) return;
  if (!exited.error().empty()) AppendTo(found->second->log_path, exited.error() + "\n");
  found->second->exit = ProcessExit{
      .signal = exited.signal(), .code = exited.code(), .reason = exited.reason().substr(0, kMostReason)};
  processes_.erase(found);
}

std::string AgentConnection::LastWords() const {
  const ProcessExit& exit = *ssh_.exit();
  const int signal = exit.code - kShellSignalBase;
  if (signal > 0 && signal <= SIGRTMAX) {
    return absl::StrCat("the agent on its host ", ExitText(ProcessExit{.signal = signal}));
  }
  const std::string words(absl::StripAsciiWhitespace(errors_));
  if (words.empty()) return absl::StrCat("ssh ", ExitText(exit));
  return absl::StrReplaceAll(words, {{"\r", ""}, {"\n", "; "}});
}

void AgentConnection::Lose(const std::string& reason) {
  if (lost_) return;
  lost_ = true;
  frames_.clear();
  ssh_.Signal(SIGKILL);
  ssh_.CloseInput();
  for (const auto& [id, process] : processes_) {
    process->exit = ProcessExit{.connection_lost = true, .reason = reason};
  }
  processes_.clear();
}

void AgentConnection::WaitForEnd(Nanoseconds timeout) {
  const MonotonicClock clock;
  const Nanoseconds deadline = clock.Now() + timeout;
  char buffer[kPieceBytes];
  for (bool ended = lost_; !ended;) {
    while (!ReadPiece(ssh_.output(), buffer, &ended).empty()) {
    }
    const Nanoseconds left = deadline - clock.Now();
    if (ended || left <= 0) return;
    pollfd reports = {ssh_.output(), POLLIN, 0};
    poll(&reports, 1, static_cast<int>(left / kMillisecond) + 1);
  }
}

void AgentConnection::AddTo(std::vector<pollfd>& fds) const {
  if (lost_) return;
  fds.push_back({ssh_.output(), POLLIN, 0});
  fds.push_back({ssh_.log(), POLLIN, 0});
  if (!frames_.empty()) fds.push_back({ssh_.input(), POLLOUT, 0});
}

}  // namespace tethys
