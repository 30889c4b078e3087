#include "deploy/launcher/run_ending.h"

#include <csignal>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "deploy/hosts/remote_run_dir.h"
#include "deploy/launcher/run_directory.h"
#include "deploy/process/remote_shell.h"
#include "deploy/text.h"
#include "runtime/base/file.h"
#include "runtime/checkpoint/checkpoint_store.h"
#include "runtime/job/job_file.h"

namespace tethys {
namespace {

constexpr int64_t kMostCommandBytes = 1 << 20;
// The file in a run's directory that contains the flags for hosts (JobRunOptions::host_flags). Absent if the
// launcher's machine runs all processes.
constexpr char kHostFlagsFile[] = "host_flags.txt";

// Words for the sender of a signal that a user, a terminal or a scheduler sends.
const char* SenderOf(int signal) {
  switch (signal) {
    case SIGINT:
      return "Ctrl-C (SIGINT)";
    case SIGTERM:
      return "SIGTERM (sent by tethys runs stop, by kill or by a scheduler)";
    case SIGHUP:
      return "SIGHUP (the terminal or the ssh connection of the command was closed)";
    default:
      return "a signal";
  }
}

// The first line of a text. The other lines report the same failure in the words of other processes.
std::string FirstLine(absl::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

// Adds the likely cause to a text about signal 9: the kernel sends this signal when memory runs out, and the
// killed process cannot report the cause.
std::string WithMeaning(std::string text) {
  if (!absl::StrContains(text, "signal 9 (Killed)") || absl::StrContains(text, "memory")) return text;
  return absl::StrCat(
      text,
      ". If nobody sent this signal, the machine most likely ran out of memory (then dmesg on it says so); "
      "fewer processes on a machine, a smaller batch or more micro_batches need less memory");
}

// Removes the name of a status code, such as "UNAVAILABLE: ", with which summaries of old builds begin a
// message.
absl::string_view WithoutCode(absl::string_view message) {
  const size_t end = message.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
  if (end == absl::string_view::npos || end < 2 || !absl::StartsWith(message.substr(end), ": "))
    return message;
  return message.substr(end + 2);
}

std::string FailureText(const proto::FirstFailure& failure) {
  const std::string message = FirstLine(WithoutCode(failure.message()));
  std::string task = failure.role();
  if (!task.empty() && task != "chief") absl::StrAppend(&task, " ", failure.index());
  if (task.empty() || absl::StrContains(message, task)) return WithMeaning(message);
  if (!failure.host().empty()) absl::StrAppend(&task, " on ", failure.host());
  return WithMeaning(absl::StrCat(task, ": ", message));
}

// The ending of a run without a summary, according to its other files.
std::string UnfinishedText(const std::string& run_dir) {
  const auto launcher = RunDirectory::Launcher(run_dir);
  const std::string process = launcher.ok() && launcher->has_value()
                                  ? absl::StrCat("process ", (*launcher)->process, " on ", (*launcher)->host)
                                  : "the command";
  return absl::StrCat(process,
                      ", which was the launcher of the run, ended without reporting a result: it was killed, "
                      "or its machine went down");
}

std::string ParentOf(absl::string_view run_dir) {
  while (run_dir.size() > 1 && absl::ConsumeSuffix(&run_dir, "/")) continue;
  const size_t slash = run_dir.rfind('/');
  return std::string(slash == absl::string_view::npos ? "." : run_dir.substr(0, slash));
}

// Tells the user how to continue the comparison or study that made the run; empty if no comparison or study
// made the run.
std::string GoOnWithExperiment(const std::string& run_dir) {
  const std::string parent = ParentOf(run_dir);
  const absl::StatusOr<std::string> file = ReadFile(absl::StrCat(parent, "/", kGoOnFile), kMostCommandBytes);
  if (!file.ok()) return "";
  const absl::string_view command = absl::StripAsciiWhitespace(*file);
  const std::string flags = absl::StrCat("--resume --run_dir=", ShellWord(parent));
  const bool here =
      // False if the directory was moved after the command was stored, or if `run_dir` is another path to the
      // same directory.
      absl::EndsWith(command, flags);
  return absl::StrCat(
      "to repeat this run, go on with its comparison or study ",
      here ? absl::StrCat("with: ", command) : absl::StrCat("by the same command as before with ", flags));
}

// The command in kStartFile; empty if there is none.
std::string OwnStartCommand(const std::string& run_dir) {
  const absl::StatusOr<std::string> file =
      ReadFile(absl::StrCat(run_dir, "/", kStartFile), kMostCommandBytes);
  return file.ok() ? std::string(absl::StripAsciiWhitespace(*file)) : "";
}

// Flags by which the job in `job_file` saves a checkpoint each epoch. Empty if the job already does so, saves
// every few steps (every_steps), or has only one epoch. The job file of a run contains the default of
// min_seconds, so the flags also set min_seconds to 0.
std::string SavingFlags(const std::string& job_file) {
  const absl::StatusOr<proto::Job> job = LoadRunJob(job_file, {});
  if (!job.ok() || job->epochs() == 1) return "";
  const proto::Checkpoint& checkpoint = job->checkpoint();
  const bool each_epoch = checkpoint.every_epochs() == 1 && checkpoint.min_seconds() <= 0;
  if (each_epoch || checkpoint.every_steps() > 0) return "";
  return absl::StrCat(" --set=checkpoint.every_epochs=1",
                      checkpoint.min_seconds() > 0 ? " --set=checkpoint.min_seconds=0" : "");
}

// A command that trains the job of a run without checkpoints from the start. If `changed`, the user must
// change the job first, so the command names the job file that the user changes. If not `changed`, the same
// failure may happen again, so the command also makes the job save checkpoints more often.
std::string StartCommand(const std::string& run_dir, bool changed) {
  const std::string own = changed ? OwnStartCommand(run_dir) : "";
  if (!own.empty()) return own;
  const std::string job_file = run_dir + "/job.textproto";
  return absl::StrCat("tethys train ", ShellWord(job_file), changed ? "" : SavingFlags(job_file),
                      ReadHostFlags(run_dir));
}

}  // namespace

std::string EndingText(const RunResult& result) {
  if (!absl::IsCancelled(result.status)) return WithMeaning(FirstLine(result.status.message()));
  return absl::StrCat(result.change.empty() ? absl::StrCat("stopped by ", SenderOf(result.interrupt))
                                            : absl::StrCat("ended for a change to ", result.change),
                      result.last_step > 0 ? absl::StrCat(", at step ", CountText(result.last_step)) : "");
}

absl::Status KeepHostFlags(const std::string& run_dir, const std::string& flags) {
  const std::string path = absl::StrCat(run_dir, "/", kHostFlagsFile);
  return flags.empty() ? RemoveRecursively(path) : WriteFileAtomically(path, flags + "\n");
}

std::string ReadHostFlags(const std::string& run_dir) {
  const absl::StatusOr<std::string> file =
      ReadFile(absl::StrCat(run_dir, "/", kHostFlagsFile), kMostCommandBytes);
  const absl::string_view flags = file.ok() ? absl::StripAsciiWhitespace(*file) : "";
  return flags.empty() ? "" : absl::StrCat(" ", flags);
}

std::string GoOnText(const std::string& run_dir, bool scheduled, const absl::Status& status) {
  if (std::string text = GoOnWithExperiment(run_dir); !text.empty()) return text;
  if (const std::string where = UnfetchedAt(run_dir); !where.empty()) {
    return absl::StrCat("the results of the run are still in ", where,
                        "; to fetch them and go on, run: tethys train --resume", ReadHostFlags(run_dir),
                        " --run_dir=", ShellWord(run_dir));
  }
  const auto checkpoints = ListCheckpoints(run_dir + "/checkpoints");
  const bool saved = checkpoints.ok() && !checkpoints->empty();
  // FailedPrecondition and InvalidArgument mean that the job is wrong, so the run would fail again unless the
  // job is changed.
  const bool by_job = absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status);
  const bool recurs =
      by_job || absl::IsResourceExhausted(status) || absl::IsNotFound(status) || absl::IsDataLoss(status);
  const std::string first = by_job && saved
                                ? "once this problem is solved (--set changes fields of the job), "
                            : recurs ? "once this problem is solved, "
                                     : "";
  if (!saved) {
    return absl::StrCat(first,
                        "train from the start: no checkpoint was saved yet (the field checkpoint of the job "
                        "sets how often to save)",
                        scheduled ? "" : absl::StrCat("; run: ", StartCommand(run_dir, recurs)));
  }
  const std::string how =
      scheduled ? " by the same command on every machine, with --resume --run_dir="
                : absl::StrCat(" with: tethys train --resume", ReadHostFlags(run_dir), " --run_dir=");
  return absl::StrCat(first, "go on from step ", checkpoints->back().step, how, ShellWord(run_dir));
}

RunEnding EndingOf(const std::string& run_dir, const absl::optional<proto::RunSummary>& summary) {
  const bool begun = FileExists(run_dir + "/log") || FileExists(run_dir + "/journal");
  if (summary.has_value() ? summary->status() == "succeeded" : !begun) return {};
  RunEnding ending;
  if (!summary.has_value()) {
    ending.text = UnfinishedText(run_dir);
  } else if (!summary->ending().empty()) {
    ending.text = summary->ending();
  } else {
    ending.text =
        summary->has_first_failure() ? FailureText(summary->first_failure()) : "stopped by the user";
  }
  // The summary's text on how to continue also gives the reason. The text is used unless it is outdated
  // because the directory was moved after the text was stored. The command in kStartFile is always valid,
  // because it does not name the directory.
  const auto names = [&](const std::string& path) {
    return summary.has_value() && absl::EndsWith(summary->go_on(), absl::StrCat("=", path));
  };
  const std::string start = summary.has_value() ? OwnStartCommand(run_dir) : "";
  const bool starts = !start.empty() && absl::EndsWith(summary->go_on(), ": " + start);
  const bool here = starts || names(run_dir) || names(ParentOf(run_dir));
  ending.go_on = here ? summary->go_on() : GoOnText(run_dir, /*scheduled=*/false, absl::CancelledError(""));
  return ending;
}

}  // namespace tethys
