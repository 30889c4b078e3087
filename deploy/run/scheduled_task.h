// `tethys train --from=SCHEDULER`: a scheduler has started this command on every machine, and its
// environment says which part of the job this process is. Blocks on the job file; thread-compatible.
#ifndef TETHYS_DEPLOY_RUN_SCHEDULED_TASK_H_
#define TETHYS_DEPLOY_RUN_SCHEDULED_TASK_H_

#include <string>
#include <vector>

#include "deploy/flags/flags.h"
#include "deploy/run/job_run.h"
#include "deploy/schedulers/scheduler_environment.h"
#include "runtime/base/status.h"
#include "runtime/cluster/job_secret.h"

namespace tethys {

// The chief's port if neither the scheduler nor --chief_port sets it; ScheduledTask::port_offset is added.
constexpr int kScheduledChiefPort = 28200;

struct ScheduledRun {
  JobSecret secret;
  ScheduledTask task;
  // The address of this machine at which the job's other processes reach it (ListenAddress).
  std::string listen_host;
  // Changes of the job, as FIELD=VALUE: first those of --set, then the numbers of workers and servers that
  // the scheduler gives.
  std::vector<std::string> overrides;
  double start_timeout = 0;  // Seconds within which all processes must join.
  bool own_gpus = false;     // True: no other worker sees the GPUs that this process sees.
};
// Reads the scheduler's environment variables and the job file: JOB or, with --resume and without JOB, the
// job stored in --run_dir. Waits until the names of this process and of the chief have addresses, at most
// for the job's timeouts.start. InvalidArgument: the variables and the job contradict each other, or the
// token is missing or has another form.
absl::StatusOr<ScheduledRun> FindScheduledRun(const Flags& flags);

// The options with which the process that starts the chief runs the job. If this process is also worker 0, it
// starts that worker, too. The scheduler starts the job's other processes, which then join.
JobRunOptions ScheduledOptions(const ScheduledRun& run);

// Refuses the job's workers and servers as they join, with `status` as the reason. Called if the process that
// should start the chief cannot start it. Blocks until all of them have been refused, at most for the job's
// timeouts.start.
void RefuseOthers(const Flags& flags, const ScheduledRun& run, const absl::Status& status);

// Runs this process's worker or server until the job ends; returns the exit status.
int RunScheduledTask(const Flags& flags, const ScheduledRun& run);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_RUN_SCHEDULED_TASK_H_
