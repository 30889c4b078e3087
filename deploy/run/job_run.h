// Makes a run of a job: `tethys train` does this once, `tethys compare` for each of its runs. Blocking;
// thread-compatible.
#ifndef TETHYS_DEPLOY_RUN_JOB_RUN_H_
#define TETHYS_DEPLOY_RUN_JOB_RUN_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "deploy/flags/flags.h"
#include "deploy/launcher/launcher.h"
#include "deploy/launcher/run_directory.h"
#include "proto/checkpoint.pb.h"
#include "proto/live.pb.h"
#include "proto/plan.pb.h"

namespace tethys {

// Makes the job's plan and checks everything that can be checked in advance. Fails if the job or its data is
// invalid. Reads only the headers of large data: the first worker of each host unpacks the rest, computes the
// standardisation and reports it to the chief. If an earlier run has stored the standardisation on this host,
// the plan contains it, and no worker computes it. With `needs_scaling`, and for a job with initial values, a
// standardisation that is not stored is computed here.
absl::StatusOr<proto::JobPlan> PrepareJob(const proto::Job& job, bool needs_scaling = false);

// Makes the checks that the chief makes when it resumes a run, but before the run directory changes. Returns
// the state from which the run continues. NotFound: the run has no undamaged checkpoint, or has saved no
// checkpoint yet. FailedPrecondition: the newest undamaged checkpoint does not fit the job, or nothing is
// left to train.
absl::StatusOr<proto::TrainingState> CheckResumable(const proto::JobPlan& plan, const std::string& run_dir);

// FailedPrecondition: the port is in use on 127.0.0.1.
absl::Status CheckPortFree(int port);

struct JobRunOptions {
  int chief_port = 0;                     // The chief's port; 0: any free port.
  absl::optional<Places> places = {};     // The processes' places; nullopt: all start on this machine.
  absl::optional<JobSecret> secret = {};  // See LaunchOptions.
  // The command that trains the job from the start, for kStartFile (run_ending.h); empty: not known.
  std::string start = {};
  // The flags by which the command places the job on hosts, as words of a shell with a space before each;
  // empty: the job runs on this machine.
  std::string host_flags = {};
  bool resume = false;
  proto::TrainingState resumed = {};                // The state from which a resumed run continues.
  std::vector<std::string> cuda_library_path = {};  // See LaunchOptions.
  bool live = false;                                // Shows the live line on standard output.
  bool show_logs = false;                           // Also shows the processes' logs on standard output.
  bool dashboard = false;                           // Serves a live view during the run (dashboard.h).
  std::vector<std::string> dashboard_metrics = {};  // The dashboard's flags for metrics (metrics_flags.h).
  bool quiet = false;                               // Shows nothing on standard output.
  // Stored in the run directory before the run starts, for live views. The run's summary also gets the
  // expectation's prediction, beside the measurements.
  absl::optional<proto::Expectation> expectation = {};
};

// Returns `flags` with the flags plain and log_to_terminal added. ReadDisplayFlags sets `live` and
// `show_logs` from these flags.
std::vector<FlagSpec> WithDisplayFlags(std::vector<FlagSpec> flags);
void ReadDisplayFlags(const Flags& flags, JobRunOptions& options);

// Writes the job into the directory, runs the job, and shows its progress on standard output.
RunResult RunJob(const proto::JobPlan& plan, const RunDirectory& directory, const JobRunOptions& options);

// A line about the run's result, from its summary: test accuracy and times. A second line follows if the
// model is hardly better than a guess.
std::string OutcomeText(const proto::Job& job, const std::string& run_dir);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_RUN_JOB_RUN_H_
