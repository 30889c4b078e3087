// Remarks on parts of a job that have no effect: servers without parameters, workers without samples. Pure;
// any thread.
#ifndef TETHYS_DEPLOY_COMMAND_JOB_REMARKS_H_
#define TETHYS_DEPLOY_COMMAND_JOB_REMARKS_H_

#include <string>
#include <vector>

#include "proto/plan.pb.h"

namespace tethys {

// One sentence for each part without effect: what it is, why it has none, and what to write instead.
std::vector<std::string> JobRemarks(const proto::JobPlan& plan);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_COMMAND_JOB_REMARKS_H_
