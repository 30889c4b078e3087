// Describes the order in which a job reads its samples. `tethys plan` prints the description, and so does
// `tethys train` when a run starts.
#ifndef TETHYS_DEPLOY_DESCRIBE_ORDER_DESCRIPTION_H_
#define TETHYS_DEPLOY_DESCRIBE_ORDER_DESCRIPTION_H_

#include <string>

#include "proto/plan.pb.h"

namespace tethys {

// Describes how the samples are shuffled: "blocks of 1,024 samples, in windows of 8 blocks". Empty: a full
// shuffle.
std::string ShuffleDescription(const proto::JobPlan& plan);

// The samples of each worker: "FILE (chosen by AUTO): worker 0 20,000 samples in 2 files, worker 1 ...".
// Empty: the job is not sharded.
std::string ShardingDescription(const proto::JobPlan& plan);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_DESCRIBE_ORDER_DESCRIPTION_H_
