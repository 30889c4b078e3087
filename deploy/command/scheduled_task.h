// `tethys train --from=tf_config|slurm`: a scheduler has started this process, and the same command on every
// machine; here it finds out which part of the job it is. Blocking on the job file; thread-compatible.
#ifndef TETHYS_DEPLOY_COMMAND_SCHEDULED_TASK_H_
#define TETHYS_DEPLOY_COMMAND_SCHEDULED_TASK_H_

#include <string>
#include <vector>

#include "deploy/command/flags.h"
#include "deploy/command/job_run.h"
#include "deploy/hosts/scheduler_environment.h"
#include "runtime/base/status.h"

namespace tethys {

// Where the chief listens when neither the scheduler nor --chief_port says.
constexpr int kScheduledChiefPort = 28200;

struct ScheduledRun {
  ScheduledTask task;
  std::vector<std::string> overrides;  // --set, then as many workers and servers as the scheduler started.
  double start_timeout = 0;            // Seconds in which all processes must have come.
  bool own_gpus = false;               // As in TaskOptions.
};
// Reads the environment, which a library must not, and JOB. InvalidArgument: they contradict one another.
absl::StatusOr<ScheduledRun> FindScheduledRun(const Flags& flags);

// How the process that starts the chief runs the job: with what belongs to it, the others coming from
// elsewhere.
absl::StatusOr<JobRunOptions> ScheduledOptions(const Flags& flags, const ScheduledRun& run);

// Runs this process's worker or server until the job ends; returns the exit status.
int RunScheduledTask(const Flags& flags, const ScheduledRun& run);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_COMMAND_SCHEDULED_TASK_H_
