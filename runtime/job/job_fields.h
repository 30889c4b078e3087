// Access to a job's fields by path, through protobuf's reflection: "optimizer.learning_rate",
// "model.layer[1].dense.units". Used by runtime/job only. Pure; any thread.
#ifndef TETHYS_RUNTIME_JOB_JOB_FIELDS_H_
#define TETHYS_RUNTIME_JOB_JOB_FIELDS_H_

#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "runtime/base/status.h"

namespace tethys {

// The message that refuses an unknown field: "Job has no field 'epoch' (did you mean 'epochs'?); it has:
// name, model, ...". If `name` is the former name of a field, the message gives the present name instead.
std::string UnknownFieldText(const google::protobuf::Descriptor& type, absl::string_view name);
// The message that refuses an unknown value: "'relu' is not a value of activation (did you mean 'RELU'?); its
// values are: ACTIVATION_NONE, RELU".
std::string UnknownValueText(const google::protobuf::FieldDescriptor& field, absl::string_view value);

// Sets the field at `path` from text. If the path leads through a oneof without a chosen member, the member
// named in the path is chosen. If the path ends in a oneof, or in a message with a oneof, `value` is the name
// of the member to choose. An empty value creates an empty message; a list is split at commas.
// InvalidArgument: the field does not accept the value, or the path leads through a member of a oneof in
// which another member is chosen. The message says what the field accepts.
absl::Status SetField(absl::string_view path, absl::string_view value, google::protobuf::Message& root);

// True if the path leads through a member of a oneof in which another member is chosen, so that the field
// does not apply to this message. False for paths that SetField refuses for another reason.
bool IsOfAnotherChoice(absl::string_view path, const google::protobuf::Message& root);

// One step of a path: a field's name and, if the field is repeated, an index.
struct PathStep {
  std::string name;
  int index = -1;
};
// Splits a path into its steps. InvalidArgument: a name is empty, or an index is no number.
absl::StatusOr<std::vector<PathStep>> ParsePath(absl::string_view path);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_JOB_JOB_FIELDS_H_
