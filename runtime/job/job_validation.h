// Fills in the defaults of a job, and refuses jobs that cannot be trained. Pure; any thread.
#ifndef TETHYS_RUNTIME_JOB_JOB_VALIDATION_H_
#define TETHYS_RUNTIME_JOB_JOB_VALIDATION_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/job.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// Maps a field to the place where it was written, for messages: "model.layer[1].dense.units" to
// "mnist.textproto:12:3".
using FieldLocator = std::function<std::string(absl::string_view field)>;

// Writes out every default, so that the job means the same to every process that reads it; resolving again
// changes nothing. InvalidArgument "WHERE: FIELD is VALUE: what is allowed, what to do" for the first field
// that is missing, out of range or in contradiction with another field.
absl::Status ResolveJob(const FieldLocator& where, proto::Job& job);

// Checks that an epoch of `epoch_length` samples has at least one step. InvalidArgument: the epoch has no
// step, because it is smaller than the global batch and drop_remainder is true. Requires a resolved job.
absl::Status CheckTrainingLength(int64_t epoch_length, const proto::Job& job);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_JOB_JOB_VALIDATION_H_
