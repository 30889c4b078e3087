// The part of job validation that concerns the optimizer and its schedule. Used by job_validation.cc only.
#ifndef TETHYS_RUNTIME_JOB_OPTIMIZER_VALIDATION_H_
#define TETHYS_RUNTIME_JOB_OPTIMIZER_VALIDATION_H_

#include "proto/job.pb.h"
#include "runtime/job/problems.h"

namespace tethys {

// Checks the optimizer's fields that are not numbers, before the rules for numbers fill in defaults.
void ResolveOptimizer(proto::Optimizer& optimizer, Problems& problems);

// Refuses optimizers that cannot be used in this job. Requires that all defaults are filled in.
void CheckOptimizer(const proto::Job& job, Problems& problems);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_JOB_OPTIMIZER_VALIDATION_H_
