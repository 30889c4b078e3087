// The JSON Schema of jobs, for editors and for programs that write jobs as plain values: a message is an
// object, a list is an array, and the name of an enum's value is a string. Pure; any thread.
#ifndef TETHYS_DEPLOY_JOB_TOOLS_JOB_SCHEMA_H_
#define TETHYS_DEPLOY_JOB_TOOLS_JOB_SCHEMA_H_

#include <string>

namespace tethys {

// Returns the schema (draft 2020-12) of proto/job.proto, with the comments of the fields as descriptions. The
// schema knows names, types and the choice of one member of a oneof. It does not know the ranges of numbers,
// nor which fields are required, because a job may get them from its base.
std::string JobSchema();

}  // namespace tethys

#endif  // TETHYS_DEPLOY_JOB_TOOLS_JOB_SCHEMA_H_
