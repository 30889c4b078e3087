// The default and the range of each number of a job. Those of layers stand with their kinds. Pure; any
// thread.
#ifndef TETHYS_RUNTIME_JOB_NUMBER_RULES_H_
#define TETHYS_RUNTIME_JOB_NUMBER_RULES_H_

#include "proto/job.pb.h"
#include "runtime/job/problems.h"

namespace tethys {

// Sets the absent numbers of every message that the job has to their defaults. Adds a problem for each number
// that is outside its range, and for each without a default that is missing.
void ApplyNumberRules(proto::Job& job, Problems& problems);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_JOB_NUMBER_RULES_H_
