// From a job to a finished run: what `tethys train` does once, and `tethys compare` for each of its runs.
// Blocking; thread-compatible.
#ifndef TETHYS_DEPLOY_COMMAND_JOB_RUN_H_
#define TETHYS_DEPLOY_COMMAND_JOB_RUN_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "deploy/command/flags.h"
#include "deploy/launcher/launcher.h"
#include "deploy/launcher/run_directory.h"
#include "proto/chief.pb.h"

namespace tethys {

// The job's plan, after everything that can be known to be wrong was looked for: also reads all of the data,
// which the workers then find in memory.
absl::StatusOr<proto::JobPlan> PrepareJob(const proto::Job& job);

// Whatever the chief would refuse to go on with, and a run that has nothing left to train, before anything of
// it changes. NotFound: the run has no undamaged checkpoint. FailedPrecondition: that checkpoint does not fit
// the job, or the job is done.
absl::StatusOr<proto::TrainingState> CheckResumable(const proto::JobPlan& plan, const std::string& run_dir);

// FailedPrecondition: somebody else listens on that port of 127.0.0.1.
absl::Status CheckPortFree(int port);

struct JobRunOptions {
  int chief_port = 0;                  // 0: any free one.
  absl::optional<Places> places = {};  // Of what is started from here; absent: everything, on this machine.
  absl::optional<JobSecret> secret = {};  // As in LaunchOptions.
  bool resume = false;
  proto::TrainingState resumed = {};                // Where the run that goes on stands.
  std::vector<std::string> cuda_library_path = {};  // As in LaunchOptions.
  bool live = false;                                // Shows the live line on standard output.
  bool show_logs = false;  // Shows there what the processes write to their logs, too.
};

// `flags` and those on what is shown: plain and log_to_terminal; and what they say.
std::vector<FlagSpec> WithDisplayFlags(std::vector<FlagSpec> flags);
void ReadDisplayFlags(const Flags& flags, JobRunOptions& options);

// Writes the job into the directory, runs it, shows progress on standard output.
RunResult RunJob(const proto::JobPlan& plan, const RunDirectory& directory, const JobRunOptions& options);

// How to go on after a failure. `scheduled`: a scheduler starts the processes.
std::string ResumeHint(const std::string& run_dir, bool scheduled);

// A line on how well it went, from the run's summary: test accuracy and times; another where the model hardly
// does better than a guess.
std::string OutcomeText(const proto::Job& job, const std::string& run_dir);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_COMMAND_JOB_RUN_H_
