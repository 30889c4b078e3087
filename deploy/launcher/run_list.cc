#include "deploy/launcher/run_list.h"

#include <sys/stat.h>

#include <ctime>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/launcher/run_directory.h"
#include "deploy/text.h"
#include "runtime/base/file.h"
#include "runtime/job/job.h"
#include "runtime/job/job_file.h"
#include "runtime/telemetry/summary.h"

namespace tethys {
namespace {

namespace fs = std::filesystem;

bool IsFile(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

bool IsDirectory(const std::string& path) {
  std::error_code error;
  return fs::is_directory(fs::symlink_status(path, error));
}

// Files that vanish meanwhile, or cannot be read, count nothing.
int64_t BytesIn(const std::string& path) {
  int64_t bytes = 0;
  std::error_code error;
  fs::recursive_directory_iterator it(path, fs::directory_options::skip_permission_denied, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    struct stat facts;
    if (lstat(it->path().c_str(), &facts) == 0 && S_ISREG(facts.st_mode)) bytes += facts.st_size;
  }
  return bytes;
}

// The result of `tethys sweep`, which trains nothing and so writes no summary (deploy/sweep/sweep_report.h).
bool IsSweep(const std::string& path) { return IsFile(path + "/sweep.json"); }

bool IsRun(const std::string& path) { return IsFile(path + "/job.textproto"); }

// Whether a launcher or a chief has begun to run the job.
bool WasStarted(const std::string& path) {
  return FileExists(path + "/log") || FileExists(path + "/journal") || FileExists(path + "/checkpoints");
}

RunState StateOf(const std::string& status) {
  if (status == "succeeded") return RunState::kFinished;
  return status == "failed" ? RunState::kFailed : RunState::kUnfinished;
}

void Damage(const absl::Status& status, ListedRun& run) {
  run.state = RunState::kDamaged;
  run.problem = std::string(status.message());
}

void FillFromSummary(const proto::RunSummary& summary, ListedRun& run) {
  run.state = StateOf(summary.status());
  if (summary.timing().total_seconds() > 0) run.seconds = summary.timing().total_seconds();
  const proto::Quality& quality = summary.has_test() ? summary.test() : summary.validation();
  if (quality.has_accuracy()) run.accuracy = quality.accuracy();
}

}  // namespace

ListedRun DescribeRun(const std::string& path, const std::string& name) {
  ListedRun run{.name = name, .bytes = BytesIn(path)};
  if (!IsRun(path)) return run;
  const std::string job_file = path + "/job.textproto";
  struct stat facts;
  if (stat(job_file.c_str(), &facts) == 0) run.started = facts.st_mtime;
  run.state = WasStarted(path) ? RunState::kUnfinished : RunState::kNotStarted;
  const absl::StatusOr<proto::RunSummary> summary =
      IsFile(absl::StrCat(path, "/", kSummaryFile)) ? ReadSummary(path) : absl::NotFoundError("");
  if (summary.ok()) {
    FillFromSummary(*summary, run);
  } else if (!absl::IsNotFound(summary.status())) {
    Damage(summary.status(), run);
  }
  const absl::StatusOr<proto::Job> job = LoadJob(job_file, {});
  if (IsSweep(path)) {
    run.state = RunState::kFinished;
    run.strategy = "sweep";
  } else if (job.ok()) {
    run.strategy = StrategyName(*job);
  } else {
    Damage(job.status(), run);
  }
  const absl::StatusOr<bool> in_use = RunDirectory::InUse(path);
  if (!in_use.ok()) {
    Damage(in_use.status(), run);
  } else if (*in_use) {
    // A summary is of an earlier attempt.
    run.state = RunState::kRunning;
    run.seconds.reset();
    run.accuracy.reset();
  }
  return run;
}

std::string TimeOfDayText(int64_t seconds) {
  if (seconds == 0) return "";
  const std::time_t time = seconds;
  std::tm parts;
  localtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M", &parts);
  return text;
}

absl::StatusOr<std::vector<ListedRun>> ListRuns(const std::string& folder) {
  TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(folder));
  std::vector<ListedRun> runs;
  for (const std::string& name : names) {
    const std::string path = absl::StrCat(folder, "/", name);
    if (!IsDirectory(path)) continue;
    std::vector<ListedRun> inside;
    const absl::StatusOr<std::vector<std::string>> parts =
        IsRun(path) ? std::vector<std::string>() : ListDirectory(path);
    if (parts.ok()) {
      for (const std::string& part : *parts) {
        const std::string part_path = absl::StrCat(path, "/", part);
        if (!IsDirectory(part_path) || !IsRun(part_path)) continue;
        inside.push_back(DescribeRun(part_path, absl::StrCat(name, "/", part)));
      }
    }
    if (inside.empty()) inside.push_back(DescribeRun(path, name));
    runs.insert(runs.end(), inside.begin(), inside.end());
  }
  return runs;
}

std::string RunStateText(RunState state) {
  switch (state) {
    case RunState::kRunning:
      return "running";
    case RunState::kFinished:
      return "finished";
    case RunState::kFailed:
      return "failed";
    case RunState::kUnfinished:
      return "unfinished";
    case RunState::kNotStarted:
      return "not started";
    case RunState::kDamaged:
      return "damaged";
    case RunState::kNoRun:
      return "no run";
  }
  return "";
}

std::string RunListText(const std::vector<ListedRun>& runs) {
  const std::vector<Column> columns = {{{"run"}, true},     {{"state"}, true}, {{"strategy"}, true},
                                       {{"started"}, true}, {{"time"}, false}, {{"accuracy %"}, false},
                                       {{"size"}, false}};
  std::vector<std::vector<std::string>> rows;
  std::string problems;
  for (const ListedRun& run : runs) {
    rows.push_back({run.name, RunStateText(run.state), run.strategy, TimeOfDayText(run.started),
                    run.seconds.has_value() ? DurationText(*run.seconds) : "",
                    run.accuracy.has_value() ? absl::StrFormat("%.2f", 100 * *run.accuracy) : "",
                    BytesText(run.bytes)});
    if (!run.problem.empty()) absl::StrAppend(&problems, run.name, " is damaged: ", run.problem, "\n");
  }
  return Table(columns, rows) + problems;
}

}  // namespace tethys
