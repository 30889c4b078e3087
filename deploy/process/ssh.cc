#include "deploy/process/ssh.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "deploy/process/log_follower.h"
#include "deploy/process/remote_shell.h"
#include "deploy/process/signal_source.h"

namespace tethys {
namespace {

constexpr size_t kMaxOutput = 1 << 20;
constexpr int kSshFailed = 255;
constexpr int kErrorLines = 5;
// The most blocks of output that are read in succession, so that endless output cannot delay the check of the
// deadline. The pipe of a process that has ended contains fewer blocks.
constexpr int kMaxPieces = 256;
// The interval of Poll calls for a child that has closed its output and is about to end.
constexpr Nanoseconds kPollInterval = 20 * kMillisecond;

// One running command.
class Call {
 public:
  Call(const RemoteCommand& command, Nanoseconds deadline, std::string error_path)
      : error_path_(std::move(error_path)),
        output_path_(command.output_path),
        patience_(deadline, command.moves_data, MonotonicClock().Now()) {
    unlink(error_path_.c_str());
    const absl::Status started = Start(command);
    if (!started.ok()) Finish(started);
  }
  ~Call() { unlink(error_path_.c_str()); }

  bool finished() const { return finished_; }
  int fd() const { return fd_; }
  RemoteResult& result() { return result_; }

  void Advance() {
    ReadOutput();
    if (finished_) return;
    if (process_->Poll().has_value()) {
      ReadOutput();
      if (!finished_) Finish(EndStatus());
    } else if (InterruptPending()) {
      GiveUp(absl::CancelledError("interrupted"));
    } else if (patience_.IsOver(Moved(), MonotonicClock().Now())) {
      GiveUp(patience_.Error());
    }
  }

 private:
  absl::Status Start(const RemoteCommand& command) {
    if (!output_path_.empty()) {
      output_ = FileDescriptor(open(output_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
      if (!output_.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", output_path_));
    }
    SpawnOptions spawn{.program = command.ssh[0],
                       .arguments = {command.ssh.begin() + 1, command.ssh.end()},
                       .name = command.ssh[0],
                       .input_path = command.input_path,
                       .log_path = error_path_,
                       .read_output = true};
    if (!command.command.empty()) {
      spawn.arguments.push_back(MarkedShellCall(command.command));
      mark_ = MarkSkipper(kOutputMark);
    }
    TETHYS_ASSIGN_OR_RETURN(Subprocess process, Subprocess::Spawn(spawn));
    process_.emplace(std::move(process));
    fd_ = process_->output();
    return absl::OkStatus();
  }

  int64_t Moved() const { return received_ + process_->input_offset(); }

  void ReadOutput() {
    char piece[1 << 16];
    for (int i = 0; i < kMaxPieces && fd_ >= 0; ++i) {
      const ssize_t got = read(fd_, piece, sizeof(piece));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) {
        fd_ = -1;
      } else if (const absl::Status kept = Keep(mark_.Skip({piece, static_cast<size_t>(got)})); !kept.ok()) {
        GiveUp(kept);
      }
    }
  }

  absl::Status Keep(absl::string_view bytes) {
    received_ += static_cast<int64_t>(bytes.size());
    if (output_.valid()) return WriteFully(output_.get(), bytes.data(), bytes.size(), output_path_);
    if (result_.output.size() + bytes.size() <= kMaxOutput) absl::StrAppend(&result_.output, bytes);
    return absl::OkStatus();
  }

  // The status of the process, which must have ended.
  absl::Status EndStatus() const {
    TETHYS_RETURN_IF_ERROR(SshStatus(*process_->exit(), error_path_));
    if (mark_.found()) return absl::OkStatus();
    return absl::UnavailableError("the shell on the host ended without running the command");
  }

  void GiveUp(const absl::Status& status) {
    process_->Signal(SIGKILL);
    Finish(status);
  }

  void Finish(absl::Status status) {
    finished_ = true;
    fd_ = -1;
    result_.status = std::move(status);
    if (process_.has_value()) result_.moved = Moved();
  }

  const std::string error_path_;
  const std::string output_path_;
  Patience patience_;
  FileDescriptor output_;
  MarkSkipper mark_;
  std::optional<Subprocess> process_;
  int fd_ = -1;
  int64_t received_ = 0;
  bool finished_ = false;
  RemoteResult result_;
};

}  // namespace

bool Patience::IsOver(int64_t moved, Nanoseconds now) {
  if (moves_data_ && moved != moved_) {
    moved_ = moved;
    since_ = now;
  }
  return now - since_ >= longest_;
}

absl::Status Patience::Error() const {
  if (!moves_data_) {
    return absl::DeadlineExceededError(absl::StrFormat("no answer within %.0f s", ToSeconds(longest_)));
  }
  return absl::DeadlineExceededError(
      absl::StrFormat("no data was transferred for %.0f s, after %d bytes", ToSeconds(longest_), moved_));
}

namespace {

// Returns `word`, quoted only if a shell would change it otherwise.
std::string WordText(const std::string& word) {
  const bool plain = std::all_of(word.begin(), word.end(),
                                 [](char c) { return absl::ascii_isalnum(c) || strchr("-_./@:", c); });
  return plain ? word : ShellQuote(word);
}

}  // namespace

std::string SshTrial(const std::string& config, const SshTarget& target) {
  std::string words = "ssh";
  if (!config.empty()) absl::StrAppend(&words, " -F ", WordText(config));
  absl::StrAppend(&words, " -o BatchMode=yes");
  if (!target.user.empty()) absl::StrAppend(&words, " -l ", target.user);
  if (target.port > 0) absl::StrAppend(&words, " -p ", target.port);
  return absl::StrCat(words, " ", target.host, " true");
}

std::vector<std::string> SshCall(const std::string& config, const SshTarget& target) {
  std::vector<std::string> words = {"ssh", "-T", "-x", "-a"};
  if (!config.empty()) words.insert(words.end(), {"-F", config});
  // These options override the user's configuration. With them, ssh asks no questions, notices a dead
  // connection, forwards no ports, ignores commands meant for interactive sessions, and leaves no shared
  // connection in the background.
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
  std::vector<std::unique_ptr<Call>> calls;
  for (size_t i = 0; i < commands.size(); ++i) {
    calls.push_back(
        std::make_unique<Call>(commands[i], deadline, absl::StrCat(scratch, "/.ssh-", getpid(), "-", i)));
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
