#include "deploy/launcher/run_list.h"

#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/launcher/run_directory.h"
#include "deploy/text.h"
#include "runtime/base/file.h"
#include "runtime/job/job.h"
#include "runtime/job/job_file.h"
#include "runtime/shape/job_shape.h"
#include "runtime/telemetry/summary.h"

namespace tethys {
namespace {

namespace fs = std::filesystem;

// True if another run counts in this run's place (deploy/experiment/experiment_run.cc): "NAME-r3.old-1" was
// repeated by a resumed comparison, "NAME-r3.aside" was disturbed by other programs.
bool IsPutAside(const std::string& name) {
  if (absl::EndsWith(name, ".aside")) return true;
  const size_t mark = name.rfind(".old-");
  uint32_t number = 0;
  return mark != std::string::npos && absl::SimpleAtoi(name.substr(mark + 5), &number);
}

bool IsFile(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

bool IsDirectory(const std::string& path) {
  std::error_code error;
  return fs::is_directory(fs::symlink_status(path, error));
}

// The target of a symbolic link that leads to a directory; empty: `path` is no such link.
std::string LinkedDirectory(const std::string& path) {
  std::error_code error;
  if (!fs::is_symlink(fs::symlink_status(path, error)) || !fs::is_directory(path, error)) return "";
  return fs::read_symlink(path, error).string();
}

// The size of the files in a folder. Files that vanish meanwhile, or cannot be read, count as empty.
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

// True if `path` has the result of `tethys sweep`, which trains nothing and so writes no summary
// (deploy/sweep/sweep_report.h).
bool IsSweep(const std::string& path) { return IsFile(path + "/sweep.json"); }

bool IsRun(const std::string& path) { return IsFile(path + "/job.textproto"); }

// True if a launcher or a chief has begun to run the job.
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
  if (summary.test().has_accuracy()) run.test_accuracy = summary.test().accuracy();
  if (summary.validation().has_accuracy()) run.validation_accuracy = summary.validation().accuracy();
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
  const absl::StatusOr<proto::Job> job = LoadRunJob(job_file, {});
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
    // The run is locked, so its summary is of an earlier attempt.
    run.state = RunState::kRunning;
    run.seconds.reset();
    run.test_accuracy.reset();
    run.validation_accuracy.reset();
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
    if (const std::string target = LinkedDirectory(path); !target.empty()) {
      runs.push_back({.name = absl::StrCat(name, " -> ", target), .state = RunState::kLink});
      continue;
    }
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

namespace {

// "NAME/" for a run "NAME/RUN" of a comparison or study; otherwise empty.
std::string GroupOf(const ListedRun& run) {
  const size_t slash = run.name.find('/');
  const bool inside = slash != std::string::npos && run.state != RunState::kLink;
  return inside ? run.name.substr(0, slash + 1) : "";
}

bool IsShown(const ListedRun& run) {
  return run.state != RunState::kNotStarted && run.state != RunState::kNoRun && run.state != RunState::kLink;
}

// One entry for all runs of a comparison or study. Runs that were put aside count in its start, size and
// duration, but not in its number of runs and its state.
ListedRun Merge(const std::string& name, const std::vector<const ListedRun*>& runs) {
  ListedRun all{.name = name, .state = RunState::kFinished};
  int64_t counted = 0, finished = 0;
  for (const ListedRun* run : runs) {
    all.started = std::max(all.started, run->started);
    all.bytes += run->bytes;
    if (run->seconds.has_value()) all.seconds = all.seconds.value_or(0) + *run->seconds;
    if (IsPutAside(run->name)) continue;
    ++counted;
    finished += run->state == RunState::kFinished ? 1 : 0;
    if (run->state == RunState::kFinished || all.state == RunState::kRunning) continue;
    const bool failed = run->state == RunState::kFailed || run->state == RunState::kDamaged;
    all.state = run->state == RunState::kRunning           ? run->state
                : failed || all.state == RunState::kFailed ? RunState::kFailed
                                                           : RunState::kUnfinished;
  }
  all.strategy = absl::StrCat(finished, " of ", PluralText(counted, "run"));
  return all;
}

}  // namespace

std::vector<ListedRun> Overview(const std::vector<ListedRun>& runs) {
  std::vector<ListedRun> shown;
  std::map<std::string, std::vector<const ListedRun*>> groups;
  for (const ListedRun& run : runs) {
    if (const std::string group = GroupOf(run); !group.empty()) {
      groups[group].push_back(&run);
    } else if (IsShown(run)) {
      shown.push_back(run);
    }
  }
  for (const auto& [name, members] : groups) shown.push_back(Merge(name, members));
  std::stable_sort(shown.begin(), shown.end(),
                   [](const ListedRun& a, const ListedRun& b) { return a.started < b.started; });
  return shown;
}

std::string LeftOutText(const std::vector<ListedRun>& runs) {
  std::map<RunState, int64_t> counts;
  for (const ListedRun& run : runs) {
    if (GroupOf(run).empty() && !IsShown(run)) ++counts[run.state];
  }
  std::vector<std::string> parts;
  const auto add = [&](RunState state, const char* one, const char* many) {
    const int64_t count = counts[state];
    if (count > 0) parts.push_back(absl::StrCat(count, " ", count == 1 ? one : many));
  };
  add(RunState::kNotStarted, "job that was not started", "jobs that were not started");
  add(RunState::kLink, "symbolic link", "symbolic links");
  add(RunState::kNoRun, "other directory", "other directories");
  return parts.empty() ? "" : absl::StrCat("Left out: ", NamesText(parts), "; --all lists everything.\n");
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
    case RunState::kLink:
      return "link";
  }
  return "";
}

std::string RunListText(const std::vector<ListedRun>& runs) {
  const auto any = [&](const absl::optional<double> ListedRun::*value) {
    return std::any_of(runs.begin(), runs.end(),
                       [&](const ListedRun& run) { return (run.*value).has_value(); });
  };
  const auto percent = [](const absl::optional<double>& value) {
    return value.has_value() ? absl::StrFormat("%.2f", 100 * *value) : "";
  };
  const bool test = any(&ListedRun::test_accuracy), validation = any(&ListedRun::validation_accuracy);
  std::vector<Column> columns = {
      {{"run"}, true}, {{"state"}, true}, {{"strategy"}, true}, {{"started"}, true}, {{"time"}, false}};
  if (test) columns.push_back({{"test %"}});
  if (validation) columns.push_back({{"validation %"}});
  columns.push_back({{"size"}});
  std::vector<std::vector<std::string>> rows;
  std::string problems;
  for (const ListedRun& run : runs) {
    std::vector<std::string>& row = rows.emplace_back();
    row = {run.name, RunStateText(run.state), run.strategy, TimeOfDayText(run.started),
           run.seconds.has_value() ? DurationText(*run.seconds) : ""};
    if (test) row.push_back(percent(run.test_accuracy));
    if (validation) row.push_back(percent(run.validation_accuracy));
    row.push_back(BytesText(run.bytes));
    if (!run.problem.empty()) absl::StrAppend(&problems, run.name, " is damaged: ", run.problem, "\n");
  }
  return Table(columns, rows) + problems;
}

}  // namespace tethys
