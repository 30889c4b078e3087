// The job of a file in other shapes: with another strategy and other numbers of processes, usually with the
// global batch of the file. `tethys calibrate` runs such jobs briefly, and `tethys advise` chooses one of
// them. Blocking; thread-compatible.
#ifndef TETHYS_DEPLOY_ADVISE_SHAPED_JOB_H_
#define TETHYS_DEPLOY_ADVISE_SHAPED_JOB_H_

#include <string>
#include <vector>

#include "deploy/calibrate/anchors.h"
#include "deploy/flags/flags.h"
#include "deploy/predict/machines.h"
#include "deploy/process/place.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "proto/summary.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// The job of the command line: argument JOB, --set, --hostfile.
struct BaseJob {
  std::string file;
  std::vector<std::string> set;
  std::string hostfile;  // The host file of `hosts`; empty: the job runs on this machine.
  proto::JobPlan plan;
  std::vector<HostEntry> hosts;  // The hosts of the host file; empty without a host file.
  // The slots of all hosts. Without a host file: the number of this machine's cores or of the job's own
  // processes, whichever is larger.
  int slots = 0;
  // The price of this machine that --what_if gives, in place of the job's price; 0: --what_if gives no price.
  double price_per_hour = 0;
};
absl::StatusOr<BaseJob> LoadBaseJob(const Flags& flags);
// Replaces the hosts of `base` by `hosts`, which must not be empty; the hosts need not exist.
void UseHosts(const std::vector<HostEntry>& hosts, BaseJob& base);

// The base job in one shape, on its machines.
struct ShapedJob {
  AnchorShape shape;
  // FIELD=VALUE overrides that turn the job file into this shape with its global batch.
  std::vector<std::string> overrides;
  proto::JobPlan plan;
  JobMachines machines;
  std::vector<HostEntry> hosts;  // The hosts of `machines`; empty without a host file.
};
// Fails as LoadJob, PlanJob and PlanCluster do: the job or the host file rules out this shape.
absl::StatusOr<ShapedJob> ShapeJob(const BaseJob& base, const AnchorShape& shape);

// Places for brief runs (BriefJob in deploy/calibrate/anchors.h) of all these jobs. Fails as PlaceJobs does.
absl::StatusOr<std::vector<Places>> PlaceBriefly(const Flags& flags, const std::vector<ShapedJob>& jobs);

// Runs a job in the new directory `run_dir` and prints nothing. The error begins with `what` and contains the
// end of the log of the process that failed. Cancelled: the user interrupted. Call it while an InterruptsHeld
// (deploy/process/signal_source.h) lives, so that no interrupt between two runs is lost.
absl::Status RunQuietly(const std::string& what, const proto::JobPlan& plan, const Places& places,
                        const std::string& run_dir, const std::vector<std::string>& cuda_library_path);

struct BriefRun {
  proto::JobPlan plan;  // The plan that ran.
  BriefTimes times;
  proto::RunSummary summary;
};
// Runs the job for about `steps` updates. Fails as RunQuietly.
absl::StatusOr<BriefRun> RunBriefly(const ShapedJob& job, const Places& places, int64_t steps,
                                    const std::string& run_dir,
                                    const std::vector<std::string>& cuda_library_path);

// The number of steps that take about `seconds`, given the predicted seconds of one step.
int64_t StepsFor(double seconds, double step);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_ADVISE_SHAPED_JOB_H_
