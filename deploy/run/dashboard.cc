#include "deploy/run/dashboard.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "deploy/process/own_program.h"
#include "runtime/base/clock.h"
#include "runtime/base/file.h"

namespace tethys {
namespace {

constexpr Nanoseconds kLongestStart = 20 * kSecond;
constexpr Nanoseconds kLongestEnd = 2 * kSecond;
constexpr int kPollMilliseconds = 10;

// The first `count` lines that the process writes, without the newline of the last line; empty if the process
// does not write them within kLongestStart.
std::string FirstLines(const Subprocess& process, int count) {
  const MonotonicClock clock;
  const Nanoseconds deadline = clock.Now() + kLongestStart;
  std::string text;
  while (clock.Now() < deadline && text.size() < 4096) {
    pollfd output = {process.output(), POLLIN, 0};
    if (poll(&output, 1, 100) <= 0) continue;
    char bytes[256];
    const ssize_t got = read(process.output(), bytes, sizeof(bytes));
    if (got == 0) break;
    if (got > 0) text.append(bytes, static_cast<size_t>(got));
    size_t end = text.find('\n');
    for (int i = 1; i < count && end != std::string::npos; ++i) end = text.find('\n', end + 1);
    if (end != std::string::npos) return text.substr(0, end);
  }
  return "";
}

}  // namespace

absl::StatusOr<Dashboard> Dashboard::Start(const std::string& run_dir,
                                           const std::vector<std::string>& metrics) {
  const std::string log = run_dir + "/log";
  TETHYS_RETURN_IF_ERROR(CreateDirectories(log));
  std::vector<std::string> arguments = {"watch", run_dir};
  arguments.insert(arguments.end(), metrics.begin(), metrics.end());
  TETHYS_ASSIGN_OR_RETURN(Subprocess process, Subprocess::Spawn({.program = OwnProgram(),
                                                                 .arguments = arguments,
                                                                 .log_path = log + "/watch.log",
                                                                 .read_output = true}));
  const std::string lines = FirstLines(process, metrics.empty() ? 1 : 2);
  if (lines.empty())
    return absl::UnavailableError(absl::StrCat("tethys watch did not start: see ", log, "/watch.log"));
  return Dashboard(std::move(process), lines);
}

Dashboard::~Dashboard() {
  if (process_.pid() <= 0) return;  // This object has been moved from.
  const MonotonicClock clock;
  const Nanoseconds deadline = clock.Now() + kLongestEnd;
  process_.Signal(SIGTERM);
  while (!process_.Poll().has_value() && clock.Now() < deadline) poll(nullptr, 0, kPollMilliseconds);
}

}  // namespace tethys
