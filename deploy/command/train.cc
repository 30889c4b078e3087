#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "absl/strings/match.h"
#include "deploy/command/verbs.h"
#include "deploy/command/version.h"
#include "deploy/describe/job_description.h"
#include "deploy/flags/metrics_flags.h"
#include "deploy/hosts/remote_run_dir.h"
#include "deploy/launcher/run_ending.h"
#include "deploy/process/remote_shell.h"
#include "deploy/report/report.h"
#include "deploy/report/report_data.h"
#include "deploy/run/initial_values.h"
#include "deploy/run/job_places.h"
#include "deploy/run/job_prediction.h"
#include "deploy/run/job_run.h"
#include "deploy/run/role_process.h"
#include "deploy/run/scheduled_task.h"
#include "deploy/run/secret_source.h"
#include "runtime/base/file.h"
#include "runtime/checkpoint/checkpoint_store.h"
#include "runtime/job/job_file.h"

namespace tethys {
namespace {

constexpr char kDescription[] =
    "Trains the model of a job file, on this machine or on the machines of --hostfile: starts the job's "
    "chief, workers and parameter servers, shows progress, and ends them all.\n\nThe run directory contains "
    "the resolved job, summary.json, epochs.csv, steps.csv, a log per process, and checkpoints. Exit status: "
    "0 the job is done; 2 the request was wrong and nothing was started; 1 the run failed or was "
    "interrupted.";

struct Request {
  proto::JobPlan plan;
  RunDirectory directory;
  JobRunOptions options;
};

absl::StatusOr<int> ChiefPort(const Flags& flags) {
  TETHYS_ASSIGN_OR_RETURN(const int64_t port, flags.GetInteger("chief_port", 0, 0, 65535));
  if (port > 0) TETHYS_RETURN_IF_ERROR(CheckPortFree(port));
  return static_cast<int>(port);
}

// The job file to read: the file that the user names or, with `resume`, the job file of the resumed run.
absl::StatusOr<std::string> JobFile(const Flags& flags, bool resume) {
  if (!resume) {
    if (!flags.arguments().empty()) return flags.arguments()[0];
    return absl::InvalidArgumentError(
        "JOB is missing, for example: tethys train examples/fashion_mnist_local.textproto");
  }
  if (!flags.Has("run_dir"))
    return absl::InvalidArgumentError("--resume needs --run_dir=DIR, the directory of the run to continue");
  TETHYS_ASSIGN_OR_RETURN(const RunDirectory directory, RunDirectory::Open(flags.Get("run_dir")));
  return directory.job_file();
}

// Locks the run to resume, checks that it can be resumed, and sets options.resumed. Under a scheduler, a run
// without a checkpoint is accepted, too.
absl::StatusOr<RunDirectory> OpenRun(const proto::JobPlan& plan, const std::string& path,
                                     const std::string& ssh_config, JobRunOptions& options) {
  TETHYS_ASSIGN_OR_RETURN(RunDirectory directory, RunDirectory::Open(path));
  TETHYS_RETURN_IF_ERROR(FetchLeftRunDir(ssh_config, path, PrintLine));
  const auto checkpoints = ListCheckpoints(path + "/checkpoints");
  if (options.secret.has_value() && checkpoints.ok() && checkpoints->empty()) return directory;
  TETHYS_ASSIGN_OR_RETURN(options.resumed, CheckResumable(plan, path));
  return directory;
}

// Refuses wrong flags for metrics before anything starts. The flags are read again by the process `tethys
// watch` that serves the metrics.
absl::Status CheckMetricsFlags(const Flags& flags) {
  LiveServerOptions unused;
  TETHYS_RETURN_IF_ERROR(ReadMetricsFlags(flags, unused));
  if (flags.Has("dashboard") || MetricsArguments(flags).empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("--metrics_address is for the live view: add --dashboard");
}

absl::StatusOr<RunDirectory> CreateRun(const std::string& path, const Place& chief) {
  TETHYS_RETURN_IF_ERROR(CheckNothingLeft(chief, path));
  return RunDirectory::Create(path);
}

// True if a file came through a pipe, which cannot be read again.
bool IsPiped(const std::string& file) {
  return absl::StartsWith(file, "/dev/") || absl::StartsWith(file, "/proc/");
}

// The flags for hosts that the user gave (JobRunOptions::host_flags), except for files that came through a
// pipe.
std::string HostFlags(const Flags& flags) {
  std::string text;
  for (const char* name : {"hostfile", "ssh_config", "bundle", "tls", "secrets", "cuda_library_path"}) {
    for (const std::string& value : flags.GetAll(name)) {
      if (!IsPiped(value)) absl::StrAppend(&text, " ", ShellWord(absl::StrCat("--", name, "=", value)));
    }
  }
  return text;
}

// The command that trains the job from the start, without a flag for the directory. Empty if the job came
// through a pipe, which cannot be read again.
std::string StartCommand(const std::string& job_file, const std::vector<std::string>& overrides,
                         const std::string& host_flags) {
  if (IsPiped(job_file)) return "";
  std::string command = absl::StrCat("tethys train ", ShellWord(job_file));
  for (const std::string& change : overrides) absl::StrAppend(&command, " ", ShellWord("--set=" + change));
  return command + host_flags;
}

// Plans the stored job of a run with changes (JobRunOptions::replan). `priced`: the stored price is the job's
// own and not that of its hosts.
absl::StatusOr<PlacedJob> PlanAgain(const Flags& flags, const std::string& run_dir, bool priced,
                                    const std::vector<std::string>& changes) {
  PlacedJob placed;
  TETHYS_ASSIGN_OR_RETURN(proto::Job job, LoadRunJob(run_dir + "/job.textproto", changes));
  if (!priced) job.clear_price_per_hour();
  TETHYS_RETURN_IF_ERROR(PriceByHosts(flags, job));
  TETHYS_ASSIGN_OR_RETURN(placed.plan, PrepareJob(job));
  TETHYS_ASSIGN_OR_RETURN(std::vector<Places> places, PlaceJobs(flags, {job}));
  placed.places = std::move(places[0]);
  const std::vector<proto::Device::Kind>& devices = placed.places.worker_devices;
  placed.plan.mutable_worker_device()->Add(devices.begin(), devices.end());
  placed.expectation = ExpectationOfRun(placed.plan, flags.Get("hostfile"), placed.places.tls);
  return placed;
}

// Prepares a run. If this fails, no process was started and no new run directory is left behind.
absl::StatusOr<Request> PrepareRequest(const Flags& flags, const std::vector<std::string>& overrides,
                                       JobRunOptions options) {
  // A scheduler may repeat the command with --resume although no run exists yet. Such a run starts from the
  // beginning.
  const bool scheduled = options.secret.has_value();
  const std::string given_path = flags.Get("run_dir");
  options.resume = flags.Has("resume") &&
                   !(scheduled && !given_path.empty() && !FileExists(given_path + "/job.textproto"));
  options.cuda_library_path = flags.GetAll("cuda_library_path");
  options.dashboard = flags.Has("dashboard");
  TETHYS_RETURN_IF_ERROR(CheckMetricsFlags(flags));
  options.dashboard_metrics = MetricsArguments(flags);
  ReadDisplayFlags(flags, options);
  TETHYS_ASSIGN_OR_RETURN(const std::string job_file, JobFile(flags, options.resume));
  options.host_flags = HostFlags(flags);
  if (!options.resume && !scheduled) options.start = StartCommand(job_file, overrides, options.host_flags);
  TETHYS_ASSIGN_OR_RETURN(proto::Job job,
                          options.resume ? LoadRunJob(job_file, overrides) : LoadJob(job_file, overrides));
  const bool priced = job.price_per_hour() > 0;
  TETHYS_RETURN_IF_ERROR(PriceByHosts(flags, job));
  absl::StatusOr<proto::JobPlan> prepared = PrepareJob(job);
  if (prepared.ok() && !options.resume) {
    if (absl::Status status = CheckInitialValues(*prepared); !status.ok()) prepared = status;
  }
  if (!prepared.ok()) return WithPlace(prepared.status(), job_file, overrides);
  proto::JobPlan plan = *std::move(prepared);
  if (!options.places.has_value()) {
    TETHYS_ASSIGN_OR_RETURN(const std::vector<Places> places, PlaceJobs(flags, {job}));
    options.places = places[0];
  }
  const std::vector<proto::Device::Kind>& devices = options.places->worker_devices;
  plan.mutable_worker_device()->Add(devices.begin(), devices.end());
  options.expectation = ExpectationOfRun(plan, flags.Get("hostfile"), options.places->tls);
  const std::string path = given_path.empty() ? FreshRunPath(job.name()) : given_path;
  TETHYS_ASSIGN_OR_RETURN(RunDirectory directory, options.resume
                                                      ? OpenRun(plan, path, flags.Get("ssh_config"), options)
                                                      : CreateRun(path, options.places->chief));
  // A host file that came through a pipe cannot be read again.
  const std::string host_file = flags.Get("hostfile");
  if (!scheduled && !IsPiped(host_file)) {
    options.replan = [flags, path, priced](const std::vector<std::string>& changes) {
      return PlanAgain(flags, path, priced, changes);
    };
    if (!host_file.empty()) options.host_file = std::filesystem::absolute(host_file).string();
  }
  return Request{std::move(plan), std::move(directory), options};
}

// Prepares a run whose processes are all started by this command.
absl::StatusOr<Request> PrepareOwn(const Flags& flags) {
  JobRunOptions options;
  TETHYS_ASSIGN_OR_RETURN(options.chief_port, ChiefPort(flags));
  return PrepareRequest(flags, flags.GetAll("set"), std::move(options));
}

// Prepares a run in which a scheduler starts every process with this command.
absl::StatusOr<Request> PrepareScheduled(const Flags& flags, const ScheduledRun& run) {
  return PrepareRequest(flags, run.overrides, ScheduledOptions(run));
}

// Writes the report. The report of a failed run shows its progress until the failure.
absl::Status ReportRun(const std::string& run_dir) {
  TETHYS_ASSIGN_OR_RETURN(const proto::Report report,
                          CollectReport(run_dir, absl::nullopt, ShortVersionText()));
  return WriteReport(report, run_dir);
}

// The number of cores that all workers share; 0 if not all workers run on this machine.
int CoresOfAll(const proto::JobPlan& plan, const Places& places) {
  if (static_cast<int>(places.workers.size()) != plan.job().workers()) return 0;
  const bool here = std::all_of(places.workers.begin(), places.workers.end(), [&](const Place& place) {
    return place.ssh.empty() && place.host == places.chief.host;
  });
  return here && places.chief.ssh.empty() ? CoresHere() : 0;
}

int RunToEnd(absl::StatusOr<Request> request) {
  if (!request.ok()) return Fail("train", request.status(), kExitBadRequest);
  const std::string& run_dir = request->directory.path();
  std::printf("%s  %-14s %s%s\n\n",
              JobSummary(request->plan, CoresOfAll(request->plan, *request->options.places)).c_str(),
              "run directory", run_dir.c_str(),
              request->options.resume ? ", going on with the job that is stored there" : "");
  std::fflush(stdout);

  const RunResult result = RunJob(request->plan, request->directory, request->options);
  const absl::Status reported = ReportRun(run_dir);
  if (!result.status.ok()) {
    Fail("train", result.status, kExitFailed);
    std::fprintf(stderr, "%s%s\n", result.log_tail.c_str(),
                 GoOnText(run_dir, request->options.secret.has_value(), result.status).c_str());
    return kExitFailed;
  }
  std::printf("%s\nresults in %s; %s\n", OutcomeText(request->plan.job(), run_dir).c_str(), run_dir.c_str(),
              reported.ok() ? "report.html there shows them"
                            : absl::StrCat("no report: ", StatusText(reported)).c_str());
  return kExitSuccess;
}

int Train(const Flags& flags) {
  if (!flags.Has("from")) return RunToEnd(PrepareOwn(flags));
  const absl::StatusOr<ScheduledRun> run = FindScheduledRun(flags);
  if (!run.ok()) return Fail("train", run.status(), kExitBadRequest);
  if (!run->task.starts_chief) return RunScheduledTask(flags, *run);
  absl::StatusOr<Request> request = PrepareScheduled(flags, *run);
  const absl::Status prepared = request.status();
  const int exit_status = RunToEnd(std::move(request));
  if (!prepared.ok()) RefuseOthers(flags, *run, prepared);
  return exit_status;
}

}  // namespace

Command TrainCommand() {
  return {
      {.verb = "train",
       .summary = "Trains the model of a job file.",
       .description = kDescription,
       .argument = "JOB",
       .argument_optional = true,
       .flags = WithDisplayFlags(WithClusterFlags(WithMetricsFlags(
           {{.name = "run_dir",
             .value = "DIR",
             .help = "Directory for results. Default: a new runs/NAME-DATE-TIME."},
            {.name = "resume",
             .help = "Goes on from the newest checkpoint in --run_dir, with the job that is stored in that "
                     "directory (JOB is not read), changed by --set: the numbers of workers and servers and "
                     "the strategy may change, too. With --from, a run that has no checkpoint yet starts "
                     "from the beginning, and JOB is needed only if no job is stored in that directory yet."},
            SetFlag("Replaces a field of the job, for example --set=workers=3, "
                    "--set=optimizer.learning_rate=0.05 or --set=model.layer[1].dense.units=64. Where a "
                    "field offers a choice, write the name of the chosen field: --set=strategy=mirrored, "
                    "--set=strategy.parameter_server.consistency=asynchronous."),
            {.name = "dashboard",
             .help = "Serves a live page of the run on 127.0.0.1 until the run ends, and prints its address. "
                     "tethys watch shows a run that has ended."},
            {.name = "chief_port",
             .value = "PORT",
             .help =
                 "Port of the chief. Default: a free one; with --from, the scheduler's port or, if it has "
                 "none, one from 28200 to 29199 that depends on the job's number."},
            {.name = "from",
             .value = SchedulerNames(),
             .help = "A scheduler has started this command on every machine, and its environment variables "
                     "say which part of the job this process is (docs/guide/schedulers.md)."},
            CudaLibraryPathFlag(),
            TokenFileFlag()}))),
       .examples = {"tethys train examples/fashion_mnist_ps_sync.textproto --set=workers=4",
                    "tethys train examples/okeanos/mirrored.textproto --hostfile=examples/okeanos/hosts",
                    "tethys train --resume --run_dir=runs/fashion_mnist_ps_sync-20261121-123456"}},
      Train};
}

}  // namespace tethys
