#include "runtime/job/parser_remedies.h"

#include <google/protobuf/descriptor.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/job.pb.h"
#include "runtime/job/job_fields.h"

namespace tethys {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

// The text between `before` and the next quote; empty if `before` is not found.
absl::string_view Quoted(absl::string_view text, absl::string_view before) {
  const size_t begin = text.find(before);
  if (begin == absl::string_view::npos) return "";
  text.remove_prefix(begin + before.size());
  return text.substr(0, text.find('"'));
}

// The first enum field called `name` in any message of the job file's schema.
const FieldDescriptor* FindEnumField(absl::string_view name) {
  const auto& file = *proto::Job::descriptor()->file();
  for (int i = 0; i < file.message_type_count(); ++i) {
    const FieldDescriptor* field = file.message_type(i)->FindFieldByName(std::string(name));
    if (field != nullptr && field->enum_type() != nullptr) return field;
  }
  return nullptr;
}

}  // namespace

std::string WithRemedy(const std::string& message) {
  const absl::string_view type_name = Quoted(message, "Message type \"");
  const absl::string_view field_name = Quoted(message, "has no field named \"");
  const Descriptor* type =
      proto::Job::descriptor()->file()->pool()->FindMessageTypeByName(std::string(type_name));
  if (type != nullptr && !field_name.empty()) return UnknownFieldText(*type, field_name);

  const absl::string_view value = Quoted(message, "Unknown enumeration value of \"");
  const FieldDescriptor* field = FindEnumField(Quoted(message, "for field \""));
  if (field != nullptr && !value.empty()) return UnknownValueText(*field, value);

  if (absl::StrContains(message, "another member of oneof") ||
      absl::StrContains(message, "specified multiple")) {
    return absl::StrCat(message, " Keep one of them.");
  }
  for (const absl::string_view nothing : {", got: ", ", found \"\"."}) {
    if (!absl::EndsWith(message, nothing)) continue;
    return absl::StrCat(absl::StripSuffix(message, nothing), ", found the end of the file: is a } missing?");
  }
  return message;
}

}  // namespace tethys
