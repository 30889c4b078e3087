// Anchors are short runs of the real programs. The costs of exchanging gradients are fitted to anchors, and
// `tethys advise` verifies its candidates by anchors. This file says which shapes to run, makes the job of a
// run, and evaluates the files of a run. Pure; any thread.
#ifndef TETHYS_DEPLOY_CALIBRATE_ANCHORS_H_
#define TETHYS_DEPLOY_CALIBRATE_ANCHORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/calibration.pb.h"
#include "proto/plan.pb.h"
#include "proto/summary.pb.h"
#include "runtime/base/status.h"
#include "runtime/shape/job_shape.h"

namespace tethys {

// A shape to run: a strategy, numbers of processes and, if it differs from the job's, a global batch.
struct AnchorShape : JobShape {
  AnchorShape() = default;
  AnchorShape(const JobStrategy& strategy, int workers, int servers, int64_t global_batch = 0)
      : JobShape{strategy, workers, servers}, global_batch(global_batch) {}

  int64_t global_batch = 0;  // In samples; 0: the global batch of the job.
  bool operator==(const AnchorShape&) const = default;
};
// The text of a shape, such as "mirrored, 4 workers" or "local, batch 16".
std::string AnchorText(const AnchorShape& shape);

// The shapes to run on hosts with `slots` slots in all. Each resource is the bottleneck of at least one of
// these runs. Each strategy runs with the fewest processes and with all slots; from six slots on also with
// half of the slots. Two workers also run with two servers. `local` runs on any number of slots. `local` also
// runs with a worker's part of `global_batch`, so that the cost of a sample and the cost of a step can be
// told apart.
std::vector<AnchorShape> AnchorShapes(int slots, int64_t global_batch);

// The job of a run with about `steps` updates. The job trains the model of `plan`, with the batch and the
// optimizer of `plan`, on synthetic samples of the same shape. The samples are kept in memory, so the job
// needs no files, and few samples are evaluated. Jobs whose samples are floats, or have maps or floats as
// labels, keep their data. The job does not keep its best epoch, does not resume a run and does not stop
// early. Fails as ResolveJob (runtime/job/job_validation.h) does, with InvalidArgument.
absl::StatusOr<proto::Job> BriefJob(const proto::JobPlan& plan, int64_t steps);

struct BriefTimes {
  // Seconds of a step: the lower quartile, over the steps, of the mean over the workers. 0 if the workers do
  // not run in lock step.
  double step = 0;
  // The mean of a step's seconds over all steps and workers. 0 if the workers do not run in lock step.
  double mean_step = 0;
  double samples_per_second = 0;  // The rate of all workers together in the last 70 % of the run.
  int64_t steps = 0;              // The number of recorded steps of all workers.
};
// Computes the times of a run from the text of steps.csv. FailedPrecondition: the run has too few steps.
absl::StatusOr<BriefTimes> TimesOf(absl::string_view steps_csv, int workers, bool lock_step);

// The times before and after the steps of a run, from the anchors' summaries; a time that no run measured is
// 0.
proto::Overheads OverheadsOf(const std::vector<proto::RunSummary>& runs);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_CALIBRATE_ANCHORS_H_
