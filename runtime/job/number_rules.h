// The default and the range of each number of a job, except the numbers of layers, whose rules are in the
// files of the layers. Pure; any thread.
#ifndef TETHYS_RUNTIME_JOB_NUMBER_RULES_H_
#define TETHYS_RUNTIME_JOB_NUMBER_RULES_H_

#include "proto/job.pb.h"
#include "runtime/job/problems.h"

namespace tethys {

// Sets the absent numbers in every message of the job to their defaults. Adds a problem for each number that
// is outside its range, and for each missing number without a default.
void ApplyNumberRules(proto::Job& job, Problems& problems);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_JOB_NUMBER_RULES_H_
