// How a job goes through its samples, as `tethys plan` and a run's start show it.
#ifndef TETHYS_DEPLOY_DESCRIBE_ORDER_DESCRIPTION_H_
#define TETHYS_DEPLOY_DESCRIBE_ORDER_DESCRIPTION_H_

#include <string>

#include "proto/plan.pb.h"

namespace tethys {

// How the samples are shuffled: "blocks of 1,024 samples, in windows of 8 blocks". Empty: a full shuffle.
std::string ShuffleDescription(const proto::JobPlan& plan);

// Which samples each worker has: "FILE (chosen by AUTO): worker 0 20,000 samples in 2 files, worker 1 ...".
// Empty: the job is not sharded.
std::string ShardingDescription(const proto::JobPlan& plan);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_DESCRIBE_ORDER_DESCRIPTION_H_
