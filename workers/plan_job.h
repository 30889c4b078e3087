// Computes the job plan, which holds everything that a job's processes must agree on, such as the variables,
// the placement of shards on servers, and batch sizes. Reads only the headers of the data files and starts no
// process.
#ifndef TETHYS_WORKERS_PLAN_JOB_H_
#define TETHYS_WORKERS_PLAN_JOB_H_

#include <cstdint>
#include <vector>

#include "proto/plan.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// `job` must come from LoadJob. The job id stays empty, because it is chosen when the job starts.
// InvalidArgument or NotFound: the data files or the model cannot be used for training, or there are more
// shards than rows.
absl::StatusOr<proto::JobPlan> PlanJob(const proto::Job& job);

// Checks a resumed job that continues at `position` of an epoch. FailedPrecondition: the last batch of the
// rest of the epoch is too small, as in PlanJob. (If the batch size has changed, the last batch of the rest
// of an epoch may have another size than the last batch of a whole epoch.)
absl::Status CheckRestOfEpoch(const proto::JobPlan& plan, int64_t position);

// Checks a host's files, with `file_samples` as in Datasets, against a plan that divides files among workers.
// FailedPrecondition: a file has another number of training samples than in the plan.
absl::Status CheckFileSamples(const proto::JobPlan& plan, const std::vector<int64_t>& file_samples);

}  // namespace tethys

#endif  // TETHYS_WORKERS_PLAN_JOB_H_
