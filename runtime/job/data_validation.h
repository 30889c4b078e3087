// What a job's data must have, beyond the ranges of single numbers (number_rules.h). A format of data is a
// row of the table in data_validation.cc. Pure; any thread.
#ifndef TETHYS_RUNTIME_JOB_DATA_VALIDATION_H_
#define TETHYS_RUNTIME_JOB_DATA_VALIDATION_H_

#include "proto/job.pb.h"
#include "runtime/job/problems.h"

namespace tethys {

// Sets the defaults of `data`, and of its fields in `tuning`, that depend on other fields. Adds what is wrong
// to `problems`.
void ResolveData(proto::Job& job, Problems& problems);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_JOB_DATA_VALIDATION_H_
