// Fields of the job file that have another name than in an earlier version. A job that a user writes is
// refused with the name of now; a job that an earlier version wrote into a run directory is read. Pure; any
// thread.
#ifndef TETHYS_RUNTIME_JOB_RENAMED_FIELDS_H_
#define TETHYS_RUNTIME_JOB_RENAMED_FIELDS_H_

#include <google/protobuf/descriptor.h>

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tethys {

// A field, or a message with all its fields. Both names are paths in a job, without indices. The messages
// around a former name still exist, and so does the message around the present one. No two rows move fields
// into messages of which one lies in the other.
struct RenamedField {
  absl::string_view former;
  absl::string_view now;
};
absl::Span<const RenamedField> RenamedFields();

// "'bucket_bytes' is now 'tuning.bucket_bytes'", for a name that messages of `type` had. Empty: they had none
// of that name.
std::string RenamedText(const google::protobuf::Descriptor& type, absl::string_view name);
// The same for a path: "'resources.interval_seconds' is now 'tuning.resources.interval_seconds'".
std::string RenamedText(absl::string_view path);

// The text of a job with present names in place of former ones. Requires text as ResolvedText writes it, a
// field, "NAME {" or "}" on each line; other text may keep former names. Lines keep their numbers: a field
// leaves an empty line, and its new place is behind the last line.
std::string WithPresentNames(absl::string_view text);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_JOB_RENAMED_FIELDS_H_
