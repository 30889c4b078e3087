// From a job as written to a plan of everything its processes must agree on: variables, placement, sizes.
// Reads the headers of the data files and nothing else; starts nothing.
#ifndef TETHYS_WORKERS_PLAN_JOB_H_
#define TETHYS_WORKERS_PLAN_JOB_H_

#include "proto/plan.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// `job` as LoadJob returns it. The job id is left empty; who starts the job chooses it. InvalidArgument,
// NotFound: data files or model that cannot be trained, more shards than rows.
absl::StatusOr<proto::JobPlan> PlanJob(const proto::Job& job);

}  // namespace tethys

#endif  // TETHYS_WORKERS_PLAN_JOB_H_
