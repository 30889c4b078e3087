// Job files that build on other job files (`base` in proto/job.proto): reads a file and its bases, and merges
// them, so that the fields of each file replace the fields of its base. Used by job_file.cc. Reading blocks
// on small files; any thread.
#ifndef TETHYS_RUNTIME_JOB_JOB_LAYERS_H_
#define TETHYS_RUNTIME_JOB_JOB_LAYERS_H_

#include <google/protobuf/message.h>

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/job.pb.h"
#include "runtime/base/status.h"
#include "runtime/job/field_places.h"

namespace tethys {

// Limits of job files: the bytes of one file, and the number of files in a chain of bases.
inline constexpr int64_t kMaxJobFileBytes = 1 << 20;
inline constexpr int kMaxJobLayers = 8;

// Replaces fields of `lower` by the fields that `upper` has: messages field by field, and lists as a whole. A
// oneof member that `upper` has replaces the member that `lower` has chosen. An empty list replaces nothing,
// because protobuf cannot tell it from an absent list. Both messages must have the same type.
void PutOver(const google::protobuf::Message& upper, google::protobuf::Message& lower);

// A job as its files write the fields, before overrides and defaults.
struct JobLayers {
  proto::Job job;  // The job, with the field `base` cleared.
  FieldPlaces places;
};

// The writer of a job file: a user, or Tethys (this version or an earlier one), which writes a job file into
// each run directory.
enum class JobWriter { kUser, kRun };

// Reads the file at `path` and its bases. In a file of a run, fields may have the names of an earlier version
// (renamed_fields.h), and defaults that the earlier version wrote out are removed. The path of a base is
// relative to the folder of the file that names it. Errors begin with the place: InvalidArgument for text
// that is no job, for more than kMaxJobLayers files and for a file that is its own base (the message names
// the chain of files); NotFound for a missing file; ResourceExhausted for a file of more than
// kMaxJobFileBytes.
absl::StatusOr<JobLayers> ReadJobLayers(const std::string& path, JobWriter writer = JobWriter::kUser);

// Parses a job that may not name a base, because its text does not come from a folder in which to look for
// the base. `file_name` appears in messages. InvalidArgument: the text is no job, or it names a base.
absl::StatusOr<JobLayers> ParseOnlyLayer(absl::string_view text, const std::string& file_name);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_JOB_JOB_LAYERS_H_
