// Job files that build on others (`base` in proto/job.proto): reads a file and its bases, and puts them over
// one another. Used by job_file.cc. Reading blocks on small files; any thread.
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

// Limits of job files: bytes of one, and files of a chain of bases.
inline constexpr int64_t kMaxJobFileBytes = 1 << 20;
inline constexpr int kMaxJobLayers = 8;

// Replaces fields of `lower` by those that `upper` has: messages field by field, lists as a whole, a member
// of a oneof together with the member that `lower` chose. An empty list replaces nothing: protobuf cannot
// tell it from one that was not written. Both are of one type.
void PutOver(const google::protobuf::Message& upper, google::protobuf::Message& lower);

// A job as its files write it, before overrides and defaults.
struct JobLayers {
  proto::Job job;  // Without base.
  FieldPlaces places;
};

// Reads the file at `path` and its bases. The path of a base is relative to the folder of the file that names
// it. Errors begin with the place: InvalidArgument for text that is no job, for more than kMaxJobLayers files
// and for a file that is its own base (the message names the files between); NotFound for a missing file;
// ResourceExhausted for a file of more than kMaxJobFileBytes.
absl::StatusOr<JobLayers> ReadJobLayers(const std::string& path);

// Parses text that has no folder in which a base could lie. `file_name` appears in messages. InvalidArgument:
// the text is no job, or it names a base.
absl::StatusOr<JobLayers> ParseOnlyLayer(absl::string_view text, const std::string& file_name);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_JOB_JOB_LAYERS_H_
