#include "deploy/ssh.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "deploy/failure_report.h"
#include "deploy/place.h"

namespace tethys {
namespace {

constexpr size_t kMaxOutput = 1 << 20;
constexpr int kSshFailed = 255;
constexpr int kErrorLines = 5;
// A child that has closed its output is about to end; so often is looked.
constexpr Nanoseconds kPollInterval = 20 * kMillisecond;

// One command on its way.
class Call {
 public:
  Call(const RemoteCommand& command, std::string error_path)
      : error_path_(std::move(error_path)), begin_(MonotonicClock().Now()) {
    unlink(error_path_.c_str());
    SpawnOptions spawn{.program = command.ssh[0],
                       .arguments = {command.ssh.begin() + 1, command.ssh.end()},
                       .name = command.ssh[0],
                       .input_path = command.input_path,
                       .log_path = error_path_,
                       .read_output = true};
    if (!command.command.empty()) {
      spawn.arguments.push_back(absl::StrCat("exec sh -c ", ShellQuote(command.command)));
    }
    absl::StatusOr<Subprocess> process = Subprocess::Spawn(spawn);
    if (process.ok()) {
      process_.emplace(*std::move(process));
      fd_ = process_->output();
    } else {
      Finish(process.status());
    }
  }
  ~Call() { unlink(error_path_.c_str()); }

  bool finished() const { return finished_; }
  int fd() const { return fd_; }
  RemoteResult& result() { return result_; }

  void Advance() {
    ReadOutput();
    if (finished_ || !process_->Poll().has_value()) return;
    ReadOutput();
    Finish(SshStatus(*process_->exit(), error_path_));
  }

  void GiveUp(Nanoseconds deadline) {
    process_->Signal(SIGKILL);
    Finish(absl::DeadlineExceededError(absl::StrFormat("no answer within %.0f s", ToSeconds(deadline))));
  }

 private:
  void ReadOutput() {
    char piece[4096];
    while (fd_ >= 0) {
      const ssize_t got = read(fd_, piece, sizeof(piece));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) {
        fd_ = -1;
      } else if (result_.output.size() + got <= kMaxOutput) {
        result_.output.append(piece, got);
      }
    }
  }

  void Finish(absl::Status status) {
    finished_ = true;
    fd_ = -1;
    result_.status = std::move(status);
    result_.finished = absl::GetCurrentTimeNanos();
    result_.duration = MonotonicClock().Now() - begin_;
  }

  const std::string error_path_;
  const Nanoseconds begin_;
  std::optional<Subprocess> process_;
  int fd_ = -1;
  bool finished_ = false;
  RemoteResult result_;
};

}  // namespace

std::vector<std::string> SshCall(const std::string& config, const SshTarget& target) {
  std::vector<std::string> words = {"ssh", "-T", "-x", "-a"};
  if (!config.empty()) words.insert(words.end(), {"-F", config});
  // What stands here overrides the user's configuration: no questions; a dead connection is noticed;
  // forwarded ports and commands meant for a person's sessions are left out; and a connection that other
  // sessions could share is never left behind in the background.
  for (const char* option : {"BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5",
                             "ServerAliveCountMax=2", "LogLevel=ERROR", "ClearAllForwardings=yes",
                             "RemoteCommand=none", "RequestTTY=no", "ControlMaster=no"}) {
    words.insert(words.end(), {"-o", option});
  }
  if (!target.user.empty()) words.insert(words.end(), {"-l", target.user});
  if (target.port > 0) words.insert(words.end(), {"-p", absl::StrCat(target.port)});
  words.insert(words.end(), {"--", target.host});
  return words;
}

absl::Status SshStatus(const ProcessExit& exit, const std::string& error_path) {
  if (exit.clean()) return absl::OkStatus();
  const std::string words(absl::StripAsciiWhitespace(LogTail(error_path, kErrorLines)));
  const std::string text = words.empty() ? ExitText(exit) : words;
  if (exit.code != kSshFailed) return absl::AbortedError(text);
  return absl::UnavailableError(absl::StrCat(absl::StartsWith(text, "ssh: ") ? "" : "ssh: ", text));
}

std::vector<RemoteResult> RunEverywhere(const std::vector<RemoteCommand>& commands, Nanoseconds deadline,
                                        const std::string& scratch) {
  const MonotonicClock clock;
  const Nanoseconds end = clock.Now() + deadline;
  std::vector<std::unique_ptr<Call>> calls;
  for (size_t i = 0; i < commands.size(); ++i) {
    calls.push_back(std::make_unique<Call>(commands[i], absl::StrCat(scratch, "/.ssh-", getpid(), "-", i)));
  }
  const auto all_finished = [&] {
    return std::all_of(calls.begin(), calls.end(), [](const auto& call) { return call->finished(); });
  };
  while (!all_finished()) {
    std::vector<pollfd> fds;
    for (const auto& call : calls) fds.push_back({call->fd(), POLLIN, 0});
    poll(fds.data(), fds.size(), static_cast<int>(kPollInterval / kMillisecond));
    for (const auto& call : calls) {
      if (!call->finished()) call->Advance();
      if (!call->finished() && clock.Now() >= end) call->GiveUp(deadline);
    }
  }
  std::vector<RemoteResult> results;
  for (const auto& call : calls) results.push_back(std::move(call->result()));
  return results;
}

absl::StatusOr<std::string> SshHostName(const std::string& config, const SshTarget& target,
                                        const std::string& scratch) {
  RemoteCommand ask{.ssh = SshCall(config, target)};
  ask.ssh.insert(ask.ssh.begin() + 1, "-G");
  const RemoteResult answer = RunEverywhere({ask}, 10 * kSecond, scratch)[0];
  TETHYS_RETURN_IF_ERROR(answer.status);
  for (absl::string_view line : absl::StrSplit(answer.output, '\n')) {
    if (absl::ConsumePrefix(&line, "hostname ")) return std::string(line);
  }
  return absl::InternalError("ssh -G names no hostname");
}

}  // namespace tethys
