#include "deploy/launcher/failure_report.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "deploy/process/exit_status.h"
#include "runtime/cluster/failure_kind.h"

namespace tethys {
namespace {

std::string LossText(const LostTask& task, int64_t step) {
  const bool explained = task.exit.signal != 0 && !task.exit.reason.empty();
  return absl::StrCat(task.name, " on ", task.host, " ", ExitText(task.exit),
                      step > 0 ? absl::StrCat(" at step ", step) : "",
                      explained ? absl::StrCat(": ", task.exit.reason) : "");
}

// The chief's error on a separate line, for a message that already names the lost process.
std::string ChiefAdds(const JobEnd& end) {
  if (!end.verdict.has_value() || end.verdict->error().empty()) return "";
  return absl::StrCat("\n  the chief reports: ", end.verdict->error());
}

// True for the exit status of a process that has reported its error: the status adds nothing to the report.
bool FollowsAReport(const ProcessExit& exit) {
  return !exit.abrupt() && (exit.code == kExitFailed || exit.code == kExitMishap);
}

const LostTask* FindKilled(const JobEnd& end) {
  const std::string blamed = end.verdict.has_value() ? end.verdict->culprit() : "";
  for (const LostTask& task : end.lost) {
    if (task.exit.abrupt() && (!task.after_verdict || blamed.empty() || task.name == blamed)) return &task;
  }
  return nullptr;
}

FirstFailure FromVerdict(const JobEnd& end) {
  const std::string culprit = end.verdict->culprit();
  std::string message =
      end.verdict->error().empty() ? "the chief reports a failure without a reason" : end.verdict->error();
  for (const std::vector<LostTask>* tasks : {&end.survived, &end.lost}) {
    for (const LostTask& task : *tasks) {
      if (task.name != culprit || FollowsAReport(task.exit)) continue;
      absl::StrAppend(&message, "\n  ", LossText(task, end.last_step));
    }
  }
  const int code = end.verdict->status_code();
  const bool known = code > 0 && code <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  absl::Status status(known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown, message);
  const bool loss = !culprit.empty() && MayBefallOneProcess(status);
  return {std::move(status), culprit.empty() ? "chief" : culprit, end.verdict->error(), loss};
}

}  // namespace

std::string ExitOf(const LostTask& task) { return LossText(task, 0); }

FirstFailure FindFirstFailure(const JobEnd& end, const std::string& chief_host) {
  if (end.verdict.has_value() && end.verdict->ok()) return {};
  if (end.interrupt != 0) {
    return {absl::CancelledError(absl::StrFormat("interrupted by SIG%s at step %d",
                                                 sigabbrev_np(end.interrupt), end.last_step)),
            "", ""};
  }
  if (!end.launch.ok()) return {end.launch, "", ""};
  if (const LostTask* killed = FindKilled(end); killed != nullptr) {
    return {absl::AbortedError(LossText(*killed, end.last_step) + ChiefAdds(end)), killed->name,
            end.verdict.has_value() ? end.verdict->error() : "", true};
  }
  if (end.verdict.has_value()) return FromVerdict(end);
  if (end.chief_silent_for > 0) {
    return {absl::DeadlineExceededError(absl::StrFormat(
                "chief on %s has reported nothing for %.0f s (last step %d): this process is stopped, stuck "
                "or overloaded; timeouts.silence in the job sets how long to wait",
                chief_host, end.chief_silent_for, end.last_step)),
            "chief", "", true};
  }
  if (!end.lost.empty()) {
    const LostTask& first = end.lost[0];
    return {absl::AbortedError(LossText(first, end.last_step)), first.name, "",
            first.exit.code == kExitMishap};
  }
  return {absl::InternalError("the chief ended without reporting the job's result"), "chief", ""};
}

std::string ReasonOf(const FirstFailure& failure, const std::string& host) {
  return std::string(absl::StripPrefix(failure.error, absl::StrCat(failure.task, " on ", host, ": ")));
}

}  // namespace tethys
