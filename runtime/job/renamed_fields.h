// Fields of the job file that had another name in an earlier version. In a job that a user writes, the former
// name is refused with a message that gives the present name; in a job that an earlier version wrote into a
// run directory, the former name is accepted. Pure; any thread.
#ifndef TETHYS_RUNTIME_JOB_RENAMED_FIELDS_H_
#define TETHYS_RUNTIME_JOB_RENAMED_FIELDS_H_

#include <google/protobuf/descriptor.h>

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tethys {

// The renaming of a field, or of a message with all its fields. Both names are paths in a job, without
// indices. The messages around a former name still exist, and so does the message around the present name.
// Two fields can move into different messages. In that case, neither of these messages lies inside the other.
struct RenamedField {
  absl::string_view former;
  absl::string_view now;
};
absl::Span<const RenamedField> RenamedFields();

// "'bucket_bytes' is now 'tuning.bucket_bytes'", for a name that a field of `type` had in an earlier version.
// Empty if no field of `type` had this name.
std::string RenamedText(const google::protobuf::Descriptor& type, absl::string_view name);
// Like RenamedText above, for a path: "'resources.interval_seconds' is now
// 'tuning.resources.interval_seconds'".
std::string RenamedText(absl::string_view path);

// The text of a job with present names in place of former ones. Requires text as ResolvedText writes it, with
// a field, "NAME {" or "}" on each line. Other text may keep former names. Lines keep their numbers: a
// renamed field is replaced by an empty line and appended after the last line.
std::string WithPresentNames(absl::string_view text);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_JOB_RENAMED_FIELDS_H_
