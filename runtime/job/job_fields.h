// Fields of a job by path, over protobuf's reflection: "optimizer.learning_rate",
// "model.layer[1].dense.units". Used by runtime/job only. Pure; any thread.
#ifndef TETHYS_RUNTIME_JOB_JOB_FIELDS_H_
#define TETHYS_RUNTIME_JOB_JOB_FIELDS_H_

#include <google/protobuf/message.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "runtime/base/status.h"

namespace tethys {

// "Job has no field 'epoch' (did you mean 'epochs'?); it has: name, model, ...".
std::string UnknownFieldText(const google::protobuf::Descriptor& type, absl::string_view name);
// "'relu' is not a value of activation (did you mean 'RELU'?); its values are: ACTIVATION_NONE, RELU".
std::string UnknownValueText(const google::protobuf::FieldDescriptor& field, absl::string_view value);

// Sets the field at `path` from text, choosing the members of oneofs on the way where none is chosen yet. A
// path that ends in a oneof, or in a message with one, takes the name of a member; an empty value makes an
// empty message; a list is split at commas. InvalidArgument says what the field accepts, also if the path
// leads through a oneof member that is not the chosen one.
absl::Status SetField(absl::string_view path, absl::string_view value, google::protobuf::Message& root);

// Whether the path leads through a oneof member that is not the chosen one, so that the field does not apply
// to this message. False for paths that SetField refuses for another reason.
bool IsOfAnotherChoice(absl::string_view path, const google::protobuf::Message& root);

// One step of a path: a field's name, and an index where it is repeated.
struct PathStep {
  std::string name;
  int index = -1;
};
// InvalidArgument for an empty name or an index that is no number.
absl::StatusOr<std::vector<PathStep>> ParsePath(absl::string_view path);

// Visits every message that can hold the last field of `path` (without indices: all elements of repeated
// fields), with that field and its full path. Absent messages are skipped.
using FieldVisitor =
    std::function<void(google::protobuf::Message& holder, const google::protobuf::FieldDescriptor& field,
                       const std::string& path)>;
void ForEachField(absl::string_view path, google::protobuf::Message& root, const FieldVisitor& visit);

// Numbers, enums and booleans alike. 64-bit integers keep 53 bits.
double GetNumber(const google::protobuf::Message& holder, const google::protobuf::FieldDescriptor& field);
void SetNumber(double value, const google::protobuf::FieldDescriptor& field,
               google::protobuf::Message& holder);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_JOB_JOB_FIELDS_H_
