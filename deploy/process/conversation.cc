#include "deploy/process/conversation.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "deploy/process/remote_shell.h"
#include "deploy/process/signal_source.h"
#include "deploy/process/ssh.h"

namespace tethys {
namespace {

constexpr char kMark[] = "tethys-check ";
constexpr char kEnd[] = "end";
constexpr size_t kMaxLines = 1000;
// The most lines that one call of Listen reads, so that a flood of lines does not delay other conversations.
constexpr int kMaxLinesAtOnce = 10'000;
// The interval of Poll calls for a child that has closed its output and is about to end.
constexpr Nanoseconds kPollInterval = 20 * kMillisecond;

}  // namespace

Conversation::Conversation(const std::vector<std::string>& ssh, const std::string& command,
                           const std::string& input, const std::string& error_path)
    : error_path_(error_path) {
  std::vector<std::string> words = {"sh", "-c", command};
  if (!ssh.empty()) {
    words = ssh;
    words.push_back(MarkedShellCall(command));
  }
  absl::StatusOr<Subprocess> process = Subprocess::Spawn({.program = words[0],
                                                          .arguments = {words.begin() + 1, words.end()},
                                                          .name = words[0],
                                                          .input = input,
                                                          .log_path = error_path,
                                                          .read_output = true});
  if (process.ok()) {
    process_.emplace(*std::move(process));
    reader_.Attach(process_->output(), ssh.empty() ? "" : kOutputMark);
  } else {
    GiveUp(process.status());
  }
}

Conversation::~Conversation() { unlink(error_path_.c_str()); }

void Conversation::Ask(const std::string& question) {
  if (!answer_.status.ok()) return;
  answering_ = true;
  answer_ = {.asked = absl::GetCurrentTimeNanos()};
  process_->Say(question + "\n");  // If the write fails the process has ended; Listen reports it.
}

void Conversation::Listen() {
  // The process is polled before its output is read: if it has ended by then, the read gets all of its
  // output.
  const bool ended = process_->Poll().has_value();
  for (int i = 0;; ++i) {
    if (i == kMaxLinesAtOnce) return;  // The next call reads the rest.
    const std::optional<std::string> line = reader_.Next();
    if (!line.has_value()) break;
    absl::string_view rest = *line;
    if (!absl::ConsumePrefix(&rest, kMark)) continue;
    if (rest == kEnd) {
      answer_.heard = absl::GetCurrentTimeNanos();
      answering_ = false;
      return;
    }
    if (answer_.lines.size() >= kMaxLines)
      return GiveUp(absl::InternalError("the answer of the host has too many lines"));
    answer_.lines.emplace_back(rest);
  }
  if (!ended) return;
  const absl::Status status = SshStatus(*process_->exit(), error_path_);
  GiveUp(status.ok() ? absl::UnavailableError("the shell on the host ended without an answer") : status);
}

void Conversation::GiveUp(const absl::Status& status) {
  answering_ = false;
  answer_ = {.status = status};
  process_.reset();
}

std::vector<Answer> AskAll(const std::vector<std::unique_ptr<Conversation>>& conversations,
                           const std::vector<std::string>& questions, Nanoseconds deadline) {
  const MonotonicClock clock;
  const Nanoseconds end = clock.Now() + deadline;
  std::vector<Conversation*> asked;
  for (size_t i = 0; i < conversations.size(); ++i) {
    if (conversations[i] == nullptr || questions[i].empty()) continue;
    conversations[i]->Ask(questions[i]);
    asked.push_back(conversations[i].get());
  }
  const auto answering = [](const Conversation* conversation) { return conversation->answering_; };
  while (std::any_of(asked.begin(), asked.end(), answering)) {
    std::vector<pollfd> fds;
    for (const Conversation* each : asked)
      fds.push_back({each->answering_ ? each->reader_.fd() : -1, POLLIN, 0});
    poll(fds.data(), fds.size(), static_cast<int>(kPollInterval / kMillisecond));
    const bool interrupted = InterruptPending();
    for (Conversation* each : asked) {
      if (each->answering_ && interrupted) each->GiveUp(absl::CancelledError("interrupted"));
      if (each->answering_) each->Listen();
      if (!each->answering_ || clock.Now() < end) continue;
      each->GiveUp(
          absl::DeadlineExceededError(absl::StrFormat("no answer within %.0f s", ToSeconds(deadline))));
    }
  }
  std::vector<Answer> answers(conversations.size());
  for (size_t i = 0; i < conversations.size(); ++i) {
    if (conversations[i] != nullptr && !questions[i].empty()) answers[i] = conversations[i]->answer_;
  }
  return answers;
}

}  // namespace tethys
