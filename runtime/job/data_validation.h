// Checks the field `data` of a job, except the ranges of single numbers (number_rules.h). Each format of data
// has a row in the table in data_validation.cc. Pure; any thread.
#ifndef TETHYS_RUNTIME_JOB_DATA_VALIDATION_H_
#define TETHYS_RUNTIME_JOB_DATA_VALIDATION_H_

#include "proto/job.pb.h"
#include "runtime/job/problems.h"

namespace tethys {

// Sets the defaults in `data` that depend on other fields, and the defaults in `tuning` that concern the
// reading of data. Adds mistakes to `problems`.
void ResolveData(proto::Job& job, Problems& problems);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_JOB_DATA_VALIDATION_H_
