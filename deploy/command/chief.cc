#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <limits>

#include "deploy/command/verbs.h"
#include "deploy/hosts/cluster_plan.h"
#include "deploy/hosts/host_addresses.h"
#include "deploy/run/initial_values.h"
#include "deploy/run/role_process.h"
#include "deploy/run/secret_source.h"
#include "runtime/base/file.h"
#include "runtime/base/socket.h"
#include "runtime/chief/chief_process.h"
#include "runtime/job/job_file.h"
#include "workers/plan_job.h"

namespace tethys {
namespace {

// SIGINT makes the chief save a checkpoint and end the job. With `scheduled` (a scheduler such as Slurm runs
// the job), SIGTERM has the same effect, because schedulers send SIGTERM to all processes. Must be created
// before this process has other threads, so that all threads inherit the blocked signals.
class InterruptSignal {
 public:
  explicit InterruptSignal(bool scheduled) {
    sigset_t interrupt;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    if (scheduled) sigaddset(&interrupt, SIGTERM);
    sigprocmask(SIG_BLOCK, &interrupt, nullptr);
    fd_ = FileDescriptor(signalfd(-1, &interrupt, SFD_NONBLOCK | SFD_CLOEXEC));
  }
  // True if a signal that ends the job has arrived since the last call.
  bool Came() const {
    signalfd_siginfo info;
    return read(fd_.get(), &info, sizeof(info)) == sizeof(info);
  }

 private:
  FileDescriptor fd_;
};

// Refuses a name that stands for a loopback address on this machine (Debian's installer writes such names
// into /etc/hosts): workers on other machines could not connect. With `scheduled` there is no check, because
// the launcher has chosen an address that other machines can reach.
absl::Status CheckListenFlag(const std::string& listen, bool scheduled) {
  const absl::StatusOr<HostPort> address = ParseHostPort(listen);
  if (!address.ok()) return Annotate(address.status(), "--listen");
  if (scheduled || !IsOwnNameForLoopback(address->host)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--listen=", listen, ": ", address->host, " has the loopback address ", NumericAddress(address->host),
      " on this machine, which other machines cannot reach: write an address that other machines can reach, "
      "or 127.0.0.1:",
      address->port, " if all processes run on this machine"));
}

absl::Status Run(const Flags& flags, const InterruptSignal& interrupt, const JobSecret& secret) {
  TETHYS_ASSIGN_OR_RETURN(const proto::Job job, LoadRunJob(flags.Get("job"), {}));
  ChiefOptions options;
  TETHYS_ASSIGN_OR_RETURN(options.plan, PlanJob(job));
  options.plan.set_job_id(secret.job_id);
  TETHYS_ASSIGN_OR_RETURN(const int64_t restarts, flags.GetInteger("max_restarts", job.max_restarts(), 0,
                                                                   std::numeric_limits<int32_t>::max()));
  options.plan.mutable_job()->set_max_restarts(static_cast<int32_t>(restarts));
  const auto devices = ParseWorkerDevices(flags.Get("worker_devices"), job.workers());
  if (!devices.ok()) return Annotate(devices.status(), "--worker_devices");
  options.plan.mutable_worker_device()->Add(devices->begin(), devices->end());
  options.run_dir = flags.Get("run_dir");
  options.listen = flags.Get("listen", "127.0.0.1:0");
  TETHYS_RETURN_IF_ERROR(CheckListenFlag(options.listen, flags.Has("scheduled")));
  options.host = flags.Get("host");
  options.token = secret.token;
  TETHYS_RETURN_IF_ERROR(SaveInitialValues(options.plan, options.run_dir));
  options.tls = secret.tls;
  options.resume = flags.Has("resume");
  options.keeps_log = flags.Has("keep_log");
  options.takes_over = flags.Has("take_over");
  TETHYS_ASSIGN_OR_RETURN(options.after_event,
                          flags.GetInteger("take_over", 0, 0, std::numeric_limits<int64_t>::max()));
  options.interrupted = [&interrupt] { return interrupt.Came(); };
  return RunChief(options);
}

}  // namespace

Command ChiefCommand() {
  return {
      {.verb = "chief",
       .summary = "Runs the chief of a job; started by launchers.",
       .description =
           "Runs the chief of one job: it waits for servers and workers to join, tells them what to do, "
           "saves checkpoints and writes the run directory. Reports progress on standard output, one JSON "
           "object per line; the first line has the address at which the chief listens.\n\nThe first line "
           "on standard input must be TOKEN JOB_ID (32 hexadecimal digits, and a word); the process ends "
           "when standard input ends. SIGINT (Ctrl-C) saves a checkpoint and ends the job.",
       .flags = {{.name = "job",
                  .value = "FILE",
                  .help = "The job, in text format.",
                  .required = true,
                  .is_input = true},
                 {.name = "run_dir",
                  .value = "DIR",
                  .help = "Directory for results; created if missing.",
                  .required = true},
                 {.name = "listen",
                  .value = "HOST:PORT",
                  .help = "Address at which the other processes reach the chief. Port 0 stands for a free "
                          "port. Default 127.0.0.1:0."},
                 HostFlag(),
                 {.name = "worker_devices",
                  .value = "LIST",
                  .help = "The device of each worker, such as cuda,cpu. Default: as the job says."},
                 {.name = "resume", .help = "Goes on from the newest checkpoint in the run directory."},
                 {.name = "max_restarts",
                  .value = "N",
                  .help = "The number of lost processes that the launcher still replaces. Default: "
                          "max_restarts of the job."},
                 {.name = "keep_log",
                  .help = "Keeps a log of the chief's inputs, so that another process can take over if this "
                          "process is killed."},
                 {.name = "take_over",
                  .value = "EVENT",
                  .help = "Takes over from a chief that kept a log and whose process has ended. EVENT: the "
                          "number of the last event that its reader has received."},
                 {.name = "scheduled",
                  .help = "Makes SIGTERM, too, save a checkpoint and end the job: for schedulers, which "
                          "send SIGTERM to all processes of a job."},
                 TokenFileFlag()},
       .examples = {"tethys chief --job=job.textproto --run_dir=runs/a < secret-and-open-pipe"}},
      [](const Flags& flags) {
        const InterruptSignal interrupt(flags.Has("scheduled"));
        return RunRole(flags, "chief", "chief",
                       [&](const JobSecret& secret) { return Run(flags, interrupt, secret); });
      }};
}

}  // namespace tethys
