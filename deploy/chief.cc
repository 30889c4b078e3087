#include "deploy/cluster_plan.h"
#include "deploy/command.h"
#include "deploy/role_process.h"
#include "runtime/chief/chief_process.h"
#include "runtime/job/job_file.h"
#include "workers/job_plan.h"

namespace tethys {
namespace {

absl::Status Run(const Flags& flags, const JobSecret& secret) {
  TETHYS_ASSIGN_OR_RETURN(const proto::Job job, LoadJob(flags.Get("job"), {}));
  ChiefOptions options;
  TETHYS_ASSIGN_OR_RETURN(options.plan, BuildJobPlan(job));
  options.plan.set_job_id(secret.job_id);
  const auto devices = ParseWorkerDevices(flags.Get("worker_devices"), job.workers());
  if (!devices.ok()) return Annotate(devices.status(), "--worker_devices");
  options.plan.mutable_worker_device()->Add(devices->begin(), devices->end());
  options.run_dir = flags.Get("run_dir");
  options.listen = flags.Get("listen", "127.0.0.1:0");
  options.host = flags.Get("host");
  options.token = secret.token;
  options.tls = secret.tls;
  options.resume = flags.Has("resume");
  return RunChief(options);
}

}  // namespace

Command ChiefCommand() {
  return {
      {.verb = "chief",
       .summary = "Runs the chief of a job; started by launchers.",
       .description =
           "Runs the chief of one job: it waits for servers and workers to join, tells them what to do, "
           "saves "
           "checkpoints and writes the run directory. Reports progress on standard output, a JSON object a "
           "line; "
           "the first says where it listens.\n\nThe first line on standard input must be TOKEN JOB_ID (32 "
           "hexadecimal digits, and a word); the process ends when standard input does.",
       .flags = {{.name = "job", .value = "FILE", .help = "The job, in text format.", .required = true},
                 {.name = "run_dir",
                  .value = "DIR",
                  .help = "Where results go; made where it is missing.",
                  .required = true},
                 {.name = "listen",
                  .value = "HOST:PORT",
                  .help = "Address for the other processes. Default 127.0.0.1:0, where 0 takes a free port."},
                 HostFlag(),
                 {.name = "worker_devices",
                  .value = "LIST",
                  .help = "What each worker computes on, as cuda,cpu. Default: as the job says."},
                 {.name = "resume", .help = "Goes on from the newest checkpoint in the run directory."},
                 TokenFileFlag()},
       .examples = {"tethys chief --job=job.textproto --run_dir=runs/a < secret-and-open-pipe"}},
      [](const Flags& flags) {
        return RunRole(flags, "chief", "chief", [&](const JobSecret& secret) { return Run(flags, secret); });
      }};
}

}  // namespace tethys
