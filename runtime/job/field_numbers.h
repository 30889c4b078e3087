// Access to the numbers in a message by the paths of their fields, through protobuf's reflection: visits the
// messages whose type has a field, and reads or writes the field as a double. Used by runtime/job only. Pure;
// any thread.
#ifndef TETHYS_RUNTIME_JOB_FIELD_NUMBERS_H_
#define TETHYS_RUNTIME_JOB_FIELD_NUMBERS_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <functional>
#include <string>

#include "absl/strings/string_view.h"

namespace tethys {

// Follows `path`, the path of a field, from `root`, and calls `visit` for each message to which the last
// field belongs. `visit` gets the message, the field and the full path of the field. `path` has no indices:
// all elements of repeated fields are visited. Absent messages are skipped.
using FieldVisitor =
    std::function<void(google::protobuf::Message& holder, const google::protobuf::FieldDescriptor& field,
                       const std::string& path)>;
void ForEachField(absl::string_view path, google::protobuf::Message& root, const FieldVisitor& visit);

// These functions read or write a number, enum or boolean as a double, which is exact for integers below
// 2^53.
double GetNumber(const google::protobuf::Message& holder, const google::protobuf::FieldDescriptor& field);
void SetNumber(double value, const google::protobuf::FieldDescriptor& field,
               google::protobuf::Message& holder);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_JOB_FIELD_NUMBERS_H_
