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
// invalid. Of large data only headers are read: the first worker of a host unpacks the rest, computes the
// standardisation and reports it to the chief, unless an earlier run has stored the standardisation on this
// host: then the plan has it. With `needs_scaling`, and for a job with initial values, the standardisation is
// computed here if necessary.
absl::StatusOr<proto::JobPlan> PrepareJob(const proto::Job& job, bool needs_scaling = false);

// Makes the same checks as the chief does on resuming, but before the run directory changes. Returns the
// state to resume from. NotFound: the run has no undamaged checkpoint. FailedPrecondition: the newest
// undamaged checkpoint does not fit the job, or nothing is left to train.
absl::StatusOr<proto::TrainingState> CheckResumable(const proto::JobPlan& plan, const std::string& run_dir);

// FailedPrecondition: the port is in use on 127.0.0.1.
absl::Status CheckPortFree(int port);

struct JobRunOptions {
  int chief_port = 0;                     // 0: any free port.
  absl::optional<Places> places = {};     // The processes' places; nullopt: all start on this machine.
  absl::optional<JobSecret> secret = {};  // See LaunchOptions.
  bool resume = false;
  proto::TrainingState resumed = {};                // The state from which a resumed run continues.
  std::vector<std::string> cuda_library_path = {};  // See LaunchOptions.
  bool live = false;                                // Shows the live line on standard output.
  bool show_logs = false;                           // Shows the processes' logs on standard output, too.
  bool dashboard = false;                           // Serves a live view meanwhile (deploy/run/dashboard.h).
  std::vector<std::string> dashboard_metrics = {};  // The dashboard's flags for metrics (metrics_flags.h).
  bool quiet = false;                               // Shows nothing on standard output.
  // Stored in the run directory before the start, for live views; its prediction is also in the run's
  // summary, beside the measurements.
  absl::optional<proto::Expectation> expectation = {};
};

// Returns `flags` with plain and log_to_terminal added; ReadDisplayFlags sets the options from them.
std::vector<FlagSpec> WithDisplayFlags(std::vector<FlagSpec> flags);
void ReadDisplayFlags(const Flags& flags, JobRunOptions& options);

// Writes the job into the directory, runs the job, and shows its progress on standard output.
RunResult RunJob(const proto::JobPlan& plan, const RunDirectory& directory, const JobRunOptions& options);

// A line on the run's result, from its summary: test accuracy and times. A second line follows if the model
// is hardly better than a guess.
std::string OutcomeText(const proto::Job& job, const std::string& run_dir);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_RUN_JOB_RUN_H_
