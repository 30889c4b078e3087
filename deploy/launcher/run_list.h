// The runs in a folder, as `tethys runs list` shows them. Reading blocks on small files and on listing all
// files of the runs; any thread.
#ifndef TETHYS_DEPLOY_LAUNCHER_RUN_LIST_H_
#define TETHYS_DEPLOY_LAUNCHER_RUN_LIST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "runtime/base/status.h"

namespace tethys {

enum class RunState {
  kRunning,  // A launcher holds the lock of the directory.
  kFinished,
  kFailed,
  kUnfinished,  // Interrupted, or its launcher ended without a summary.
  kNotStarted,  // The directory contains only a job, such as a job that `tethys advise` has written.
  kDamaged,     // The job or the summary cannot be read.
  kNoRun,       // The directory holds no run.
  kLink,        // A symbolic link to a directory, which is not read.
};

// A directory in the list.
struct ListedRun {
  std::string name;  // Relative to the folder: "NAME", or "COMPARISON/NAME" for a run of a comparison.
  RunState state = RunState::kNoRun;
  // The name of the strategy, or "sweep" for a sweep; empty: unknown. The fields below are empty if unknown,
  // too.
  std::string strategy = {};
  int64_t started = 0;                  // When the last attempt began, in seconds since 1970; 0: unknown.
  absl::optional<double> seconds = {};  // Duration of all attempts together.
  absl::optional<double> test_accuracy = {};        // In [0, 1].
  absl::optional<double> validation_accuracy = {};  // After the last epoch; in [0, 1].
  int64_t bytes = 0;                                // The size of all files; links are not followed.
  std::string problem = {};                         // Why the run is damaged.
};

// Lists the directories in `folder`, and the links to directories, in the order of their names. A directory
// that is no run but contains runs, such as a comparison, is replaced by its runs. NotFound: there is no such
// folder. An unreadable file inside a directory is no error, but the directory is then listed as damaged.
absl::StatusOr<std::vector<ListedRun>> ListRuns(const std::string& folder);

// Describes the directory `path` as a run with this name.
ListedRun DescribeRun(const std::string& path, const std::string& name);

// "running", ..., "damaged", "no run".
std::string RunStateText(RunState state);

// "2026-11-21 12:34" in local time; empty for 0. `seconds`: since 1970.
std::string TimeOfDayText(int64_t seconds);

// The runs in the order of their starts, the newest last. The runs of a comparison or a study are one entry,
// "NAME/", with the number of finished runs and the start of the newest run. Jobs that were not started,
// links and other directories are left out. Pure.
std::vector<ListedRun> Overview(const std::vector<ListedRun>& runs);
// A sentence that counts what Overview leaves out of `runs`; empty if it leaves out nothing.
std::string LeftOutText(const std::vector<ListedRun>& runs);

// A table with a line per run. Below the table is a line per damaged run that says what is wrong.
std::string RunListText(const std::vector<ListedRun>& runs);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_RUN_LIST_H_
