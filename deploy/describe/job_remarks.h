// Remarks on a job before it starts: settings without effect (servers without parameters, workers without
// samples, far more workers than cores), and notes on its data. Pure; any thread.
#ifndef TETHYS_DEPLOY_DESCRIBE_JOB_REMARKS_H_
#define TETHYS_DEPLOY_DESCRIBE_JOB_REMARKS_H_

#include <string>
#include <vector>

#include "proto/plan.pb.h"

namespace tethys {

// One sentence for each setting without effect: the setting, the reason, and what to write instead. Then the
// notes on the data, JobPlan::data_note. `cores`: the number of cores that all workers share; 0: the number
// is not known, or the workers run on several computers.
std::vector<std::string> JobRemarks(const proto::JobPlan& plan, int cores = 0);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_DESCRIBE_JOB_REMARKS_H_
