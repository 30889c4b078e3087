// Makes a run of a job: `tethys train` does this once, `tethys compare` for each of its runs. Blocking;
// thread-compatible.
#ifndef TETHYS_DEPLOY_RUN_JOB_RUN_H_
#define TETHYS_DEPLOY_RUN_JOB_RUN_H_

#include <functional>
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
// invalid. Of large data, only the headers are read here. The first worker of each host unpacks the rest,
// computes the standardisation (mean and deviation of the inputs) and reports it to the chief. If an earlier
// run has stored the standardisation on this host, the plan contains it, and no worker computes it. There are
// two cases in which a standardisation that is not stored is computed here: with `needs_scaling`, and for a
// job with initial values.
absl::StatusOr<proto::JobPlan> PrepareJob(const proto::Job& job, bool needs_scaling = false);

// Makes the checks that the chief makes when it resumes a run, but before the run directory changes. Returns
// the state from which the run continues. NotFound: the run has no undamaged checkpoint, or has saved no
// checkpoint yet. FailedPrecondition: the newest undamaged checkpoint does not fit the job, or nothing is
// left to train.
absl::StatusOr<proto::TrainingState> CheckResumable(const proto::JobPlan& plan, const std::string& run_dir);

// FailedPrecondition: the port is in use on 127.0.0.1.
absl::Status CheckPortFree(int port);

// A job with the places of its processes.
struct PlacedJob {
  proto::JobPlan plan;
  Places places;
  absl::optional<proto::Expectation> expectation = {};  // As in JobRunOptions.
};

struct JobRunOptions {
  int chief_port = 0;                  // The chief's port; 0: any free port.
  absl::optional<Places> places = {};  // The processes' places; nullopt: all start on this machine.
  // The job's secret, if a scheduler starts some of the processes. nullopt: the launcher draws a random
  // secret.
  absl::optional<JobSecret> secret = {};
  // The command that trains the job from the start, for kStartFile (run_ending.h); empty: not known.
  std::string start = {};
  // The flags by which the command places the job on hosts, as words of a shell with a space before each;
  // empty: the job runs on this machine.
  std::string host_flags = {};
  bool resume = false;
  proto::TrainingState resumed = {};                // The state from which a resumed run continues.
  std::vector<std::string> cuda_library_path = {};  // Folders with NVIDIA's libraries, for workers.
  bool live = false;                                // Shows the live line on standard output.
  bool show_logs = false;                           // Also shows the processes' logs on standard output.
  bool dashboard = false;                           // Serves a live view during the run (dashboard.h).
  std::vector<std::string> dashboard_metrics = {};  // The dashboard's flags for metrics (metrics_flags.h).
  bool quiet = false;                               // Shows nothing on standard output.
  // Stored in the run directory before the run starts, for live views. The run's summary also gets the
  // expectation's prediction, beside the measurements.
  absl::optional<proto::Expectation> expectation = {};
  // Plans the stored job of the run anew, with changes (FIELD=VALUE), for `tethys scale` (scale_request.h).
  // Empty: the run keeps its numbers of processes.
  std::function<absl::StatusOr<PlacedJob>(const std::vector<std::string>&)> replan = {};
  std::string host_file = {};  // The host file of the run; empty: all processes are on this machine.
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
