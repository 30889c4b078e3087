// The values with which a job starts if its field `initial` (job.proto) names a checkpoint. Blocks on files;
// thread-compatible.
#ifndef TETHYS_DEPLOY_RUN_INITIAL_VALUES_H_
#define TETHYS_DEPLOY_RUN_INITIAL_VALUES_H_

#include <string>

#include "proto/plan.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// Checks that the checkpoint has everything that the job takes from it. OK for a job without `initial`.
// FailedPrecondition: a variable or moving statistic is missing, or has another shape; the message names the
// variable and the remedy. InvalidArgument: an entry of `except` is not the beginning of any variable's name.
// Otherwise fails as OpenSavedModel does.
absl::Status CheckInitialValues(const proto::JobPlan& plan);

// Writes the checkpoint InitialCheckpoint(RUN_DIR/checkpoints), unless it exists already, the run has a later
// checkpoint, or the job has no `initial`. Fails as CheckInitialValues and CheckpointWriter do.
absl::Status SaveInitialValues(const proto::JobPlan& plan, const std::string& run_dir);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_RUN_INITIAL_VALUES_H_
