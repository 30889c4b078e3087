#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "deploy/command/verbs.h"
#include "deploy/hosts/cluster_plan.h"
#include "deploy/launcher/run_stop.h"
#include "deploy/live/progress_file.h"
#include "deploy/run/scale_request.h"
#include "deploy/shape_words.h"
#include "deploy/text.h"
#include "runtime/base/clock.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/cluster/sample_order.h"
#include "runtime/job/job.h"
#include "runtime/job/job_file.h"
#include "runtime/shape/job_shape.h"
#include "workers/plan_job.h"

namespace tethys {
namespace {

constexpr Nanoseconds kPoll = 20 * kMillisecond;
constexpr int kMostProcesses = 1 << 16;

// The changes of the job that the flags ask for, with the global batch of the job as it runs.
absl::StatusOr<std::vector<std::string>> ChangesOf(const Flags& flags, const proto::Job& job,
                                                   const std::string& host_file) {
  if (host_file.empty() && !flags.Has("workers") && !flags.Has("servers")) {
    return absl::InvalidArgumentError("give --workers=N, --servers=N, or both");
  }
  TETHYS_ASSIGN_OR_RETURN(const int64_t workers,
                          flags.GetInteger("workers", job.workers(), 1, kMostProcesses));
  std::vector<std::string> changes = {absl::StrCat("workers=", workers),
                                      absl::StrCat("global_batch_size=", GlobalBatch(job))};
  if (flags.Has("servers")) {
    if (!TraitsOf(job).servers()) {
      return absl::InvalidArgumentError(absl::StrCat("--servers: the strategy of the run is ",
                                                     StrategyName(job), ", which has no servers"));
    }
    TETHYS_ASSIGN_OR_RETURN(const int64_t servers, flags.GetInteger("servers", 0, 1, kMostProcesses));
    changes.push_back(absl::StrCat("strategy.parameter_server.servers=", servers));
  }
  return changes;
}

// Checks that the job and its host file allow the changes.
absl::Status CheckChanges(const std::string& run_dir, const std::vector<std::string>& changes,
                          const std::string& host_file) {
  const std::string job_file = run_dir + "/job.textproto";
  TETHYS_ASSIGN_OR_RETURN(const proto::Job before, LoadRunJob(job_file, {}));
  TETHYS_ASSIGN_OR_RETURN(const proto::Job after, LoadRunJob(job_file, changes));
  if (before.workers() == after.workers() && ShapeOf(before).servers == ShapeOf(after).servers &&
      host_file.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the run has these numbers of processes already: ", ProcessesText(ShapeOf(before))));
  }
  if (!host_file.empty()) TETHYS_RETURN_IF_ERROR(PlanCluster(host_file, after).status());
  TETHYS_ASSIGN_OR_RETURN(const proto::JobPlan old_plan, PlanJob(before));
  TETHYS_ASSIGN_OR_RETURN(const proto::JobPlan new_plan, PlanJob(after));
  if (OrderText(old_plan) == OrderText(new_plan)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the job's data.sharding is ", proto::Data::Sharding_Name(ShardingOf(old_plan)),
      ", so the number of workers cannot change within an epoch: stop the run at the end of an epoch, "
      "and go on with --resume, or train with data.sharding=GLOBAL"));
}

// Reads the events of the run until the request is taken and training starts anew. Returns the step at which
// training starts. An error: the run has ended, or it goes on without the change.
absl::StatusOr<int64_t> WaitForChange(const std::string& run_dir, ProgressReader& reader,
                                      const RunningLauncher& launcher, Nanoseconds limit) {
  const MonotonicClock clock;
  const Nanoseconds deadline = clock.Now() + limit;
  absl::optional<int64_t> step;
  std::string ending, refusal;
  while (true) {
    TETHYS_ASSIGN_OR_RETURN(const bool ended, launcher.WaitForEnd(kPoll));
    const bool taken = !HasScaleRequest(run_dir);
    const auto take = [&](const proto::ProgressEvent& event) {
      if (taken && event.has_started()) step = event.started().step();
      if (absl::StartsWith(event.note(), kNotChanged)) refusal = event.note();
      if (event.has_finished()) ending = event.finished().ok() ? "it is done" : event.finished().error();
    };
    TETHYS_RETURN_IF_ERROR(reader.ReadNew([] {}, take));
    if (!refusal.empty()) return absl::AbortedError(refusal);
    if (step.has_value()) return *step;
    if (ended) return absl::AbortedError(absl::StrCat("the run ended meanwhile: ", ending));
    if (clock.Now() > deadline) {
      return absl::DeadlineExceededError(absl::StrCat("the run does not train again within ",
                                                      DurationText(ToSeconds(limit)),
                                                      "; tethys runs logs --follow shows what it does"));
    }
  }
}

int Scale(const Flags& flags) {
  const std::string& run_dir = flags.arguments()[0];
  const absl::StatusOr<int64_t> limit = ParseDuration(flags.Get("limit", "5m"), "smh");
  if (!limit.ok()) return Fail("scale", Annotate(limit.status(), "--limit"), kExitBadRequest);
  const absl::StatusOr<RunningLauncher> launcher = RunningLauncher::Find(run_dir);
  if (!launcher.ok()) return Fail("scale", launcher.status(), kExitBadRequest);
  const absl::StatusOr<std::string> host_file = HostFileOfScalable(run_dir);
  if (!host_file.ok()) return Fail("scale", host_file.status(), kExitBadRequest);
  const absl::StatusOr<proto::Job> job = LoadRunJob(run_dir + "/job.textproto", {});
  if (!job.ok()) return Fail("scale", job.status(), kExitBadRequest);
  const auto changes = ChangesOf(flags, *job, *host_file);
  if (!changes.ok()) return Fail("scale", changes.status(), kExitBadRequest);
  if (const absl::Status sound = CheckChanges(run_dir, *changes, *host_file); !sound.ok()) {
    return Fail("scale", sound, kExitBadRequest);
  }
  ProgressReader reader(run_dir);
  absl::Status asked = reader.ReadNew([] {}, [](const proto::ProgressEvent&) {});
  const MonotonicClock clock;
  const Nanoseconds begin = clock.Now();
  if (asked.ok()) asked = LeaveScaleRequest(run_dir, *changes);
  if (!asked.ok()) return Fail("scale", asked, kExitFailed);
  const absl::StatusOr<int64_t> step = WaitForChange(run_dir, reader, *launcher, *limit * kSecond);
  if (!step.ok()) return Fail("scale", step.status(), kExitFailed);
  const absl::StatusOr<proto::Job> now = LoadRunJob(run_dir + "/job.textproto", {});
  if (!now.ok()) return Fail("scale", now.status(), kExitFailed);
  const std::string numbers = ProcessesText(ShapeOf(*now));
  std::printf("%s %s on from step %s, %s after the request\n", numbers.c_str(),
              numbers == "1 worker" ? "goes" : "go", CountText(*step).c_str(),
              TimeText(ToSeconds(clock.Now() - begin)).c_str());
  return kExitSuccess;
}

}  // namespace

Command ScaleCommand() {
  return {
      {.verb = "scale",
       .summary = "Gives a running run other numbers of workers and servers.",
       .description =
           "Asks the command that makes a run, `tethys train`, for other numbers of workers and servers. The "
           "command saves a checkpoint, ends all processes, and starts the job again with the new numbers: "
           "no "
           "step is lost, every sample counts once, and the global batch stays the same. It reads the host "
           "file of the run again, so you can first add hosts to this file or remove hosts. RUN_DIR is the "
           "directory of the run; use `scale` on the machine where the run was started.\n\nNumbers that the "
           "job or the host file do not allow are refused before the run is disturbed. If the new processes "
           "then do not start, the run goes on with the old numbers. `scale` cannot change runs of "
           "comparisons, of studies and of schedulers.",
       .argument = "RUN_DIR",
       .flags = {{.name = "workers", .value = "N", .help = "The number of workers."},
                 {.name = "servers", .value = "N", .help = "The number of parameter servers."},
                 {.name = "limit",
                  .value = "TIME",
                  .help = "How long to wait until training resumes, such as 30s or 1h. Default: 5m."}},
       .examples = {"tethys scale runs/fashion_mnist_mirrored-20261121-123456 --workers=4",
                    "tethys scale runs/fashion_mnist_ps_sync-20261121-123456 --workers=6 --servers=3"}},
      Scale};
}

}  // namespace tethys
