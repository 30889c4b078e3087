// Makes the job plan, which holds everything that a job's processes must agree on: variables, placement,
// sizes. Reads only the headers of the data files; starts nothing.
#ifndef TETHYS_WORKERS_PLAN_JOB_H_
#define TETHYS_WORKERS_PLAN_JOB_H_

#include "proto/plan.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// `job` is as LoadJob returns it. The job id is left empty; the starter of the job chooses it.
// InvalidArgument, NotFound: data files or model that cannot be trained, more shards than rows.
absl::StatusOr<proto::JobPlan> PlanJob(const proto::Job& job);

}  // namespace tethys

#endif  // TETHYS_WORKERS_PLAN_JOB_H_
