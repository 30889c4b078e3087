#include "deploy/run/scheduled_task.h"

#include <poll.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>

#include "deploy/hosts/host_addresses.h"
#include "deploy/process/own_program.h"
#include "deploy/run/role_process.h"
#include "deploy/run/secret_source.h"
#include "ps/server_process.h"
#include "runtime/base/clock.h"
#include "runtime/base/file.h"
#include "runtime/base/process.h"
#include "runtime/base/shared_log.h"
#include "runtime/base/socket.h"
#include "runtime/chief/refusal.h"
#include "runtime/cluster/grpc_log.h"
#include "runtime/cluster/task_options.h"
#include "runtime/job/job.h"
#include "runtime/job/job_file.h"
#include "runtime/shape/job_shape.h"
#include "workers/worker_process.h"

namespace tethys {
namespace {

absl::optional<std::string> ProcessEnvironment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? absl::nullopt : absl::optional<std::string>(value);
}

absl::StatusOr<ScheduledTask> TaskFrom(const std::string& name, const proto::Job& job) {
  for (const Scheduler& scheduler : Schedulers()) {
    if (name != scheduler.name) continue;
    return scheduler.task(
        {.environment = ProcessEnvironment, .shape = ShapeOf(job), .machine = FullHostName});
  }
  return absl::InvalidArgumentError(absl::StrCat("--from=", name, ": must be one of ", SchedulerNames()));
}

// True if the scheduler gives this task GPUs of its own. Only a worker on a GPU reads Slurm's variables about
// GPUs, so errors in these variables do not stop other processes.
absl::StatusOr<bool> HasOwnGpus(const std::string& scheduler, const ScheduledTask& task,
                                const proto::Job& job) {
  const bool on_gpu = task.role == proto::WORKER && job.device().kind() == proto::Device::CUDA;
  if (!on_gpu || scheduler != "slurm") return false;
  return SlurmGivesOwnGpus(ProcessEnvironment);
}

// Checks that the scheduler's number of servers fits the job's strategy.
absl::Status CheckFits(const ScheduledTask& task, const proto::Job& job) {
  const bool has_servers = TraitsOf(job).servers();
  if ((task.servers > 0) == has_servers) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the scheduler started ", task.servers, " parameter servers, but the job's strategy is ",
                   StrategyName(job), has_servers ? ": start ps tasks" : ": start no ps tasks",
                   ", or choose another strategy by --set=strategy=..."));
}

// The path of the job file. Every process reads it, because the job's strategy and number of servers
// determine the role of each process.
absl::StatusOr<std::string> ScheduledJobFile(const Flags& flags) {
  if (!flags.arguments().empty()) return flags.arguments()[0];
  if (!flags.Has("resume") || !flags.Has("run_dir")) {
    return absl::InvalidArgumentError(
        "--from needs JOB on every machine; JOB may be left out only with --resume and --run_dir=DIR, once "
        "the run has begun");
  }
  const std::string stored = flags.Get("run_dir") + "/job.textproto";
  if (FileExists(stored)) return stored;
  return absl::InvalidArgumentError(absl::StrCat(
      stored, " does not exist: either no run began in the directory --run_dir, or this machine (",
      HostName(), ") does not share that directory; name JOB as well, on every machine"));
}

// Waits until the names of this process and of the chief have addresses: in a cluster of containers, a name
// gets its address only when its container starts.
absl::Status WaitForNames(const ScheduledTask& task, Nanoseconds timeout) {
  constexpr int kPauseMs = 250;
  const Nanoseconds deadline = MonotonicClock().Now() + timeout;
  bool said = false;
  for (const std::string& name : {task.host, task.chief_host}) {
    while (!name.empty() && NumericAddress(name).empty()) {
      if (MonotonicClock().Now() > deadline) {
        return absl::UnavailableError(
            absl::StrCat("the name ", name, " got no address within ", ToSeconds(timeout),
                         " s (timeouts.start of the job): the names of its machines must resolve"));
      }
      if (!said) std::fprintf(stderr, "tethys train: waiting until %s has an address\n", name.c_str());
      said = true;
      poll(nullptr, 0, kPauseMs);
    }
  }
  return absl::OkStatus();
}

// Sets run.listen_host, and replaces names by addresses where this machine alone knows what they mean.
absl::Status FindOwnAddress(ScheduledRun& run) {
  ScheduledTask& task = run.task;
  TETHYS_RETURN_IF_ERROR(WaitForNames(task, FromSeconds(run.start_timeout)));
  TETHYS_ASSIGN_OR_RETURN(run.listen_host, ListenAddress(task.host, task.hosts));
  if (task.other_machines && IsLoopbackName(run.listen_host)) {
    return absl::InvalidArgumentError(
        absl::StrCat(task.chief_host,
                     ", the chief's address, leads to this machine only: give the scheduler a name or an "
                     "address of this machine that other machines can reach"));
  }
  if (task.host.empty()) {
    task.host = HostName();
  } else if (run.listen_host != task.host) {
    std::fprintf(
        stderr,
        "tethys train: %s has the loopback address %s on this machine, at which other machines cannot reach "
        "it; this process listens at %s\n",
        task.host.c_str(), NumericAddress(task.host).c_str(), run.listen_host.c_str());
  }
  // Processes on the chief's machine use listen_host, too, because the chief's name may be known on this
  // machine only.
  if (task.chief_host == task.host) task.chief_host = run.listen_host;
  return absl::OkStatus();
}

// A scheduler signals all processes of a job at once, but the chief needs its tasks for a last checkpoint. So
// a task ignores the first signal of each kind and ends with the job; a second signal ends the task at once.
void SpareFirstSignals() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction once = {};
    once.sa_handler = [](int) {};
    once.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
    sigaction(number, &once, nullptr);
  }
}

}  // namespace

absl::StatusOr<ScheduledRun> FindScheduledRun(const Flags& flags) {
  if (flags.Has("tls")) {
    return absl::InvalidArgumentError(
        "--tls cannot be used with --from: no launcher issues certificates to processes that a "
        "scheduler starts");
  }
  ScheduledRun run;
  TETHYS_ASSIGN_OR_RETURN(run.secret, TakeScheduledSecret(flags));
  run.overrides = flags.GetAll("set");
  TETHYS_ASSIGN_OR_RETURN(const std::string job_file, ScheduledJobFile(flags));
  TETHYS_ASSIGN_OR_RETURN(const proto::Job job, flags.arguments().empty()
                                                    ? LoadRunJob(job_file, run.overrides)
                                                    : LoadJob(job_file, run.overrides));
  TETHYS_ASSIGN_OR_RETURN(run.task, TaskFrom(flags.Get("from"), job));
  TETHYS_RETURN_IF_ERROR(CheckFits(run.task, job));
  TETHYS_ASSIGN_OR_RETURN(run.own_gpus, HasOwnGpus(flags.Get("from"), run.task, job));
  TETHYS_ASSIGN_OR_RETURN(
      const int64_t port,
      flags.GetInteger("chief_port", kScheduledChiefPort + run.task.port_offset, 1, 65535));
  run.start_timeout = job.timeouts().start();
  TETHYS_RETURN_IF_ERROR(FindOwnAddress(run));
  if (run.task.chief_port == 0) run.task.chief_port = static_cast<int>(port);
  run.overrides.push_back(absl::StrCat("workers=", run.task.workers));
  if (run.task.servers > 0) {
    run.overrides.push_back(absl::StrCat("strategy.parameter_server.servers=", run.task.servers));
  }
  return run;
}

JobRunOptions ScheduledOptions(const ScheduledRun& run) {
  JobRunOptions options;
  options.secret = run.secret;
  options.chief_port = run.task.chief_port;
  options.places = PlacesHere(OwnProgram(), run.task.role == proto::WORKER ? 1 : 0, 0);
  options.places->chief.address = run.listen_host;
  for (Place& place : options.places->workers) place.address = run.listen_host;
  return options;
}

void RefuseOthers(const Flags& flags, const ScheduledRun& run, const absl::Status& status) {
  const ScheduledTask& task = run.task;
  ShareStandardError(absl::StrCat("chief on ", task.host), flags.Has("log_to_terminal"));
  LogWhatGrpcLogs();
  const int own = task.role == proto::WORKER ? 1 : 0;
  const absl::Status told = RefuseTasks({.listen = HostPortText({run.listen_host, task.chief_port}),
                                         .secret = run.secret,
                                         .reason = absl::StrCat("the job does not begin: ", status.message()),
                                         .tasks = task.workers + task.servers - own,
                                         .timeout = FromSeconds(run.start_timeout)},
                                        MonotonicClock());
  if (!told.ok()) std::fprintf(stderr, "%s\n", std::string(told.message()).c_str());
}

int RunScheduledTask(const Flags& flags, const ScheduledRun& run) {
  SpareFirstSignals();
  const ScheduledTask& task = run.task;
  const std::string verb = task.role == proto::PS ? "ps" : "worker";
  const std::string owner = absl::StrCat(verb, " ", task.index, " on ", task.host);
  ShareStandardError(owner, flags.Has("log_to_terminal"));
  LogWhatGrpcLogs();
  const auto role = [&](const JobSecret& secret) {
    TaskOptions options;
    options.chief_address = HostPortText({task.chief_host, task.chief_port});
    options.role = task.role;
    options.index = task.index;
    options.bind_host = run.listen_host;
    options.cuda_library_path = flags.GetAll("cuda_library_path");
    options.own_gpus = run.own_gpus;
    options.token = secret.token;
    options.job_id = secret.job_id;
    options.connect_timeout = FromSeconds(run.start_timeout);
    return task.role == proto::PS ? RunParameterServer(options) : RunWorker(options);
  };
  return RunRoleWithSecret(
      run.secret, {.verb = verb, .name = absl::StrCat(verb, "-", task.index), .caller = owner}, role);
}

}  // namespace tethys
