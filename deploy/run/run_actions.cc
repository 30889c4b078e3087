#include "deploy/run/run_actions.h"

#include <sys/stat.h>

#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include "deploy/describe/run_details.h"
#include "deploy/flags/command.h"
#include "deploy/launcher/run_directory.h"
#include "deploy/launcher/run_ending.h"
#include "deploy/launcher/run_stop.h"
#include "deploy/process/log_merge.h"
#include "deploy/run/job_run.h"
#include "deploy/text.h"
#include "runtime/telemetry/summary.h"

namespace tethys {
namespace {

constexpr Nanoseconds kLogInterval = 200 * kMillisecond;

// When a file was last written, in seconds and nanoseconds since 1970; {0, 0} if it does not exist.
std::pair<int64_t, int64_t> TimeWritten(const std::string& path) {
  struct stat facts;
  if (stat(path.c_str(), &facts) != 0) return {0, 0};
  return {facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec};
}

// A text that says how the run ended, and how the user can continue it. `begun`: when the last attempt began.
std::string EndText(const std::string& path, std::pair<int64_t, int64_t> begun) {
  const absl::StatusOr<proto::RunSummary> summary = ReadSummary(path);
  const std::string hint = GoOnText(path, /*scheduled=*/false, absl::CancelledError(""));
  if (absl::IsNotFound(summary.status()) || TimeWritten(absl::StrCat(path, "/", kSummaryFile)) < begun) {
    return absl::StrCat("the run ended before it trained; ", hint);
  }
  if (!summary.ok()) return StatusText(summary.status());
  const std::string text =
      absl::StrCat("the run ended with status ", summary->status(), " after ",
                   PluralText(summary->steps(), "step"), " in ", PluralText(summary->epochs(), "epoch"));
  const RunEnding ending = EndingOf(path, *summary);
  return ending.text.empty() ? text : absl::StrCat(text, ": ", ending.text, "; ", ending.go_on);
}

// Prints the lines that are added to the run's logs, until the run has ended.
absl::Status FollowLogs(const std::string& path, const std::string& folder, LogMerge& logs) {
  for (bool running = true; running;) {
    std::fflush(stdout);
    std::this_thread::sleep_for(std::chrono::nanoseconds(kLogInterval));
    // `running` is set before the logs are read, so that the last lines of a run that ends in between are
    // still shown.
    TETHYS_ASSIGN_OR_RETURN(running, RunDirectory::InUse(path));
    TETHYS_RETURN_IF_ERROR(logs.AddFolder(folder));
    TETHYS_RETURN_IF_ERROR(logs.ShowNew(!running));
  }
  return absl::OkStatus();
}

absl::Status PrintLogs(const std::string& path, bool follow) {
  TETHYS_RETURN_IF_ERROR(CheckHoldsRun(path));
  TETHYS_ASSIGN_OR_RETURN(const bool running, RunDirectory::InUse(path));
  const std::string folder = path + "/log";
  LogMerge logs([](const std::string& line) { std::printf("%s\n", line.c_str()); });
  TETHYS_RETURN_IF_ERROR(logs.AddFolder(folder));
  if (logs.logs() == 0 && !(follow && running)) {
    return absl::NotFoundError(absl::StrCat(folder, " holds no logs: no process of the run has begun"));
  }
  TETHYS_RETURN_IF_ERROR(logs.ShowNew(/*ended=*/!running));
  return follow && running ? FollowLogs(path, folder, logs) : absl::OkStatus();
}

}  // namespace

int ShowRun(const std::string& path) {
  const absl::StatusOr<RunDetails> run = ReadRunDetails(path);
  if (!run.ok()) return Fail("runs", run.status(), kExitBadRequest);
  std::printf("%s", RunDetailsText(*run).c_str());
  return run->listed.state == RunState::kDamaged ? kExitFailed : kExitSuccess;
}

int StopRun(const std::string& path, Nanoseconds limit) {
  const absl::StatusOr<RunningLauncher> launcher = RunningLauncher::Find(path);
  if (!launcher.ok()) return Fail("runs", launcher.status(), kExitBadRequest);
  const std::pair<int64_t, int64_t> begun = TimeWritten(path + "/job.textproto");
  if (const absl::Status asked = launcher->AskToStop(); !asked.ok()) return Fail("runs", asked, kExitFailed);
  std::printf("asked process %lld to end the run %s, as Ctrl-C does; waiting until the run has ended\n",
              static_cast<long long>(launcher->name().process), path.c_str());
  std::fflush(stdout);
  const absl::StatusOr<bool> ended = launcher->WaitForEnd(limit);
  if (!ended.ok()) return Fail("runs", ended.status(), kExitFailed);
  if (!*ended) {
    return Fail("runs",
                absl::DeadlineExceededError(absl::StrCat(
                    path, " has not ended within ", DurationText(ToSeconds(limit)),
                    ": the run may be saving a checkpoint (tethys runs logs --follow shows when the run "
                    "ends); a second tethys runs stop ends the run at once, without the checkpoint")),
                kExitFailed);
  }
  std::printf("%s\n", EndText(path, begun).c_str());
  return kExitSuccess;
}

int ShowRunLogs(const std::string& path, bool follow) {
  const absl::Status printed = PrintLogs(path, follow);
  if (printed.ok()) return kExitSuccess;
  return Fail("runs", printed, absl::IsNotFound(printed) ? kExitBadRequest : kExitFailed);
}

}  // namespace tethys
