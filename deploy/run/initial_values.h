// The values that a job starts with where `initial` in job.proto names a checkpoint. Blocks on files;
// thread-compatible.
#ifndef TETHYS_DEPLOY_RUN_INITIAL_VALUES_H_
#define TETHYS_DEPLOY_RUN_INITIAL_VALUES_H_

#include <string>

#include "proto/plan.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// Checks that the checkpoint has all that the job takes from it. OK for a job without `initial`.
// FailedPrecondition: a variable or moving statistic is missing, or has another shape; the message names it
// and the remedy. InvalidArgument: an entry of `except` is the beginning of no variable's name. Also the
// errors of OpenSavedModel.
absl::Status CheckInitialValues(const proto::JobPlan& plan);

// Writes InitialCheckpoint(RUN_DIR/checkpoints), unless it is there already, the run has a later checkpoint,
// or the job needs none. Errors: those of CheckInitialValues and CheckpointWriter.
absl::Status SaveInitialValues(const proto::JobPlan& plan, const std::string& run_dir);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_RUN_INITIAL_VALUES_H_
