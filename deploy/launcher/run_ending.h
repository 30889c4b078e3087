// A text that tells the user how an unsuccessful run ended and how to continue it. The run prints this text;
// summary.json, `tethys runs show`, reports and live views show it later. Blocks on small files; any thread.
#ifndef TETHYS_DEPLOY_LAUNCHER_RUN_ENDING_H_
#define TETHYS_DEPLOY_LAUNCHER_RUN_ENDING_H_

#include <string>

#include "absl/types/optional.h"
#include "deploy/launcher/launcher.h"
#include "proto/summary.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// A sentence without a full stop: "worker 1 on vm was killed by signal 9 (Killed) at step 1303, ...",
// "stopped by Ctrl-C (SIGINT), at step 1,303". Requires a result that is not OK.
std::string EndingText(const RunResult& result);

// The file in the directory of a comparison or study that contains the command to resume it.
inline constexpr char kGoOnFile[] = "go_on.txt";

// The file in the directory of a run that contains the command to train the run's job from the start, with
// the job file that the user named. Absent in runs of comparisons, of schedulers and of old builds.
inline constexpr char kStartFile[] = "start.txt";

// Keeps the flags that place the run on hosts (JobRunOptions::host_flags) in its directory, for the commands
// of GoOnText; empty flags replace those of an earlier attempt.
absl::Status KeepHostFlags(const std::string& run_dir, const std::string& flags);
// The flags that KeepHostFlags has kept, with a space before each; empty if there are none.
std::string ReadHostFlags(const std::string& run_dir);

// Tells the user how to continue after a failure with `status`: names the checkpoint and the command. If the
// user must change the job before it is trained from the start, the command is the one in kStartFile, so that
// it names the file that the user changes. For a run of a comparison or study, names the command that resumes
// the comparison or study and repeats the run. `scheduled`: a scheduler starts the processes.
std::string GoOnText(const std::string& run_dir, bool scheduled, const absl::Status& status);

struct RunEnding {
  std::string text = {};   // The text of EndingText; empty: the run succeeded, or has not begun.
  std::string go_on = {};  // The text of GoOnText.
};
// The ending of a run that has no launcher any more. `summary`: the summary of the run, if it has one. A run
// that has begun but has no summary is taken for a run whose launcher was killed.
RunEnding EndingOf(const std::string& run_dir, const absl::optional<proto::RunSummary>& summary);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_RUN_ENDING_H_
