#include "deploy/advise/shaped_job.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "deploy/experiment/strategy_shapes.h"
#include "deploy/hosts/cluster_plan.h"
#include "deploy/launcher/run_directory.h"
#include "deploy/process/signal_source.h"
#include "deploy/run/job_places.h"
#include "deploy/run/job_run.h"
#include "runtime/base/control_group.h"
#include "runtime/base/file.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/job/job.h"
#include "runtime/job/job_file.h"
#include "runtime/shape/job_shape.h"
#include "runtime/telemetry/summary.h"
#include "workers/plan_job.h"

namespace tethys {
namespace {

constexpr int64_t kMaxStepsCsvBytes = int64_t{256} << 20;
// The number of steps of a job that is planned only to assign its processes to hosts. The number is
// arbitrary, because the assignment does not depend on it.
constexpr int64_t kPlacingSteps = 100;
constexpr double kLeastBriefSteps = 20;
constexpr double kMostBriefSteps = 3000;

}  // namespace

absl::StatusOr<BaseJob> LoadBaseJob(const Flags& flags) {
  BaseJob base{.file = flags.arguments()[0],
               .set = flags.GetAll("set"),
               .hostfile = flags.Get("hostfile"),
               .plan = {},
               .hosts = {}};
  TETHYS_ASSIGN_OR_RETURN(const proto::Job job, LoadJob(base.file, base.set));
  absl::StatusOr<proto::JobPlan> plan = PlanJob(job);
  if (!plan.ok()) return WithPlace(plan.status(), base.file, base.set);
  base.plan = *std::move(plan);
  if (base.hostfile.empty()) {
    base.slots = std::max(std::max(2, UsableCores()), job.workers() + ShapeOf(job).servers);
    return base;
  }
  TETHYS_ASSIGN_OR_RETURN(base.hosts, ReadHostFile(base.hostfile));
  for (const HostEntry& host : base.hosts) base.slots += host.slots;
  return base;
}

void UseHosts(const std::vector<HostEntry>& hosts, BaseJob& base) {
  base.hosts = hosts;
  base.hostfile = "--what_if";
  base.slots = 0;
  for (const HostEntry& host : hosts) base.slots += host.slots;
}

absl::StatusOr<ShapedJob> ShapeJob(const BaseJob& base, const AnchorShape& shape) {
  ShapedJob shaped{.shape = shape, .overrides = {}, .plan = {}, .machines = {}, .hosts = base.hosts};
  shaped.overrides = ShapeOverrides(shape);
  shaped.overrides.push_back(absl::StrCat(
      "global_batch_size=", shape.global_batch > 0 ? shape.global_batch : base.plan.global_batch()));
  const ShapeTraits& traits = TraitsOf(shape.strategy);
  if (CopiesShards(base.plan) && traits.servers() && (!traits.forms_groups || shape.servers == 1)) {
    shaped.overrides.push_back("strategy.parameter_server.replicas=1");  // No server could keep a copy.
  }
  std::vector<std::string> set = base.set;
  set.insert(set.end(), shaped.overrides.begin(), shaped.overrides.end());
  TETHYS_ASSIGN_OR_RETURN(proto::Job job, LoadJob(base.file, set));
  absl::StatusOr<proto::JobPlan> plan = PlanJob(job);
  if (!plan.ok()) return WithPlace(plan.status(), base.file, set);
  shaped.plan = *std::move(plan);
  if (base.price_per_hour > 0) shaped.plan.mutable_job()->clear_price_per_hour();
  shaped.machines = MachinesHere(shaped.plan);
  shaped.machines.price_per_hour = base.price_per_hour;
  if (base.hosts.empty()) return shaped;
  TETHYS_ASSIGN_OR_RETURN(const ClusterPlan cluster, PlanCluster(base.hosts, base.hostfile, job));
  shaped.machines = MachinesOf(cluster);
  shaped.plan.mutable_worker_device()->Add(cluster.worker_devices.begin(), cluster.worker_devices.end());
  return shaped;
}

absl::StatusOr<std::vector<Places>> PlaceBriefly(const Flags& flags, const std::vector<ShapedJob>& jobs) {
  std::vector<proto::Job> brief;
  std::vector<std::vector<HostEntry>> hosts;
  for (const ShapedJob& job : jobs) {
    TETHYS_ASSIGN_OR_RETURN(proto::Job one, BriefJob(job.plan, kPlacingSteps));
    brief.push_back(std::move(one));
    hosts.push_back(job.hosts);
  }
  return PlaceJobs(flags, brief, hosts);
}

absl::Status RunQuietly(const std::string& what, const proto::JobPlan& plan, const Places& places,
                        const std::string& run_dir, const std::vector<std::string>& cuda_library_path) {
  TETHYS_ASSIGN_OR_RETURN(const RunDirectory directory, RunDirectory::Create(run_dir));
  JobRunOptions options;
  options.places = places;
  options.cuda_library_path = cuda_library_path;
  options.quiet = true;
  const RunResult result = RunJob(plan, directory, options);
  if (InterruptPending()) return absl::CancelledError(absl::StrCat(what, ": interrupted while it ended"));
  return Annotate(result.status, absl::StrCat(what, result.log_tail.empty() ? "" : "\n", result.log_tail));
}

absl::StatusOr<BriefRun> RunBriefly(const ShapedJob& job, const Places& places, int64_t steps,
                                    const std::string& run_dir,
                                    const std::vector<std::string>& cuda_library_path) {
  TETHYS_ASSIGN_OR_RETURN(const proto::Job brief, BriefJob(job.plan, steps));
  BriefRun run;
  TETHYS_ASSIGN_OR_RETURN(run.plan, PlanJob(brief));
  *run.plan.mutable_worker_device() = job.plan.worker_device();
  TETHYS_RETURN_IF_ERROR(RunQuietly(absl::StrCat("the brief run of ", AnchorText(job.shape)), run.plan,
                                    places, run_dir, cuda_library_path));
  TETHYS_ASSIGN_OR_RETURN(run.summary, ReadSummary(run_dir));
  TETHYS_ASSIGN_OR_RETURN(const std::string steps_csv, ReadFile(run_dir + "/steps.csv", kMaxStepsCsvBytes));
  absl::StatusOr<BriefTimes> times = TimesOf(steps_csv, brief.workers(), !TraitsOf(brief).leases());
  if (!times.ok()) return Annotate(times.status(), AnchorText(job.shape));
  run.times = *times;
  return run;
}

int64_t StepsFor(double seconds, double step) {
  return std::llround(std::clamp(seconds / std::max(step, 1e-6), kLeastBriefSteps, kMostBriefSteps));
}

}  // namespace tethys
