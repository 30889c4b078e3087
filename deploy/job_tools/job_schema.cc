#include "deploy/job_tools/job_schema.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "deploy/json_text.h"
#include "runtime/base/status.h"

namespace tethys {

// The descriptors of job.proto with its comments: a FileDescriptorSet (CMakeLists.txt). The messages that the
// program holds have descriptors without comments.
absl::string_view JobDescriptor();

namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::OneofDescriptor;

using Members = std::vector<std::pair<std::string, std::string>>;  // Names, and values as JSON.

std::string Object(const Members& members) {
  return absl::StrCat("{",
                      absl::StrJoin(members, ", ",
                                    [](std::string* out, const auto& member) {
                                      absl::StrAppend(out, JsonQuoted(member.first), ": ", member.second);
                                    }),
                      "}");
}

std::string Array(const std::vector<std::string>& values) {
  return absl::StrCat("[", absl::StrJoin(values, ", "), "]");
}

// The comment above or behind a declaration as one paragraph; empty without a comment.
template <typename Declaration>
std::string CommentOf(const Declaration& declaration) {
  google::protobuf::SourceLocation location;
  if (!declaration.GetSourceLocation(&location)) return "";
  std::string text = absl::StrCat(location.leading_comments, location.trailing_comments);
  text = absl::StrReplaceAll(text, {{"\n", " "}});
  absl::RemoveExtraAsciiWhitespace(&text);
  return text;
}

void AddDescription(const std::string& text, Members& members) {
  if (!text.empty()) members.emplace_back("description", JsonQuoted(text));
}

// The name of a message or an enum without its package: "Device.Precision".
template <typename Type>
std::string NameOf(const Type& type) {
  return type.full_name().substr(type.file()->package().size() + 1);
}

std::string Reference(const std::string& name) { return JsonQuoted(absl::StrCat("#/$defs/", name)); }

Members TypeOf(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return {{"$ref", Reference(NameOf(*field.message_type()))}};
    case FieldDescriptor::CPPTYPE_ENUM:
      return {{"$ref", Reference(NameOf(*field.enum_type()))}};
    case FieldDescriptor::CPPTYPE_STRING:
      return {{"type", JsonQuoted("string")}};
    case FieldDescriptor::CPPTYPE_BOOL:
      return {{"type", JsonQuoted("boolean")}};
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return {{"type", JsonQuoted("number")}};
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
      return {{"type", JsonQuoted("integer")}, {"minimum", "0"}};
    default:
      return {{"type", JsonQuoted("integer")}};
  }
}

std::string FieldSchema(const FieldDescriptor& field) {
  Members members = TypeOf(field);
  if (field.is_repeated()) members = {{"type", JsonQuoted("array")}, {"items", Object(members)}};
  AddDescription(CommentOf(field), members);
  return Object(members);
}

// A schema that accepts one member of the oneof, or none.
std::string ChoiceSchema(const OneofDescriptor& choice) {
  std::vector<std::string> members;
  for (int i = 0; i < choice.field_count(); ++i) {
    members.push_back(Object({{"required", Array({JsonQuoted(choice.field(i)->name())})}}));
  }
  const std::string none = Object({{"not", Object({{"anyOf", Array(members)}})}});
  members.push_back(none);
  Members schema;
  AddDescription(CommentOf(choice), schema);
  schema.emplace_back("oneOf", Array(members));
  return Object(schema);
}

// The definition of a message, a line for each field.
std::string MessageSchema(const Descriptor& message) {
  Members members;
  AddDescription(CommentOf(message), members);
  members.emplace_back("type", JsonQuoted("object"));
  std::vector<std::string> fields, choices;
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    fields.push_back(absl::StrCat("\n      ", JsonQuoted(field.name()), ": ", FieldSchema(field)));
  }
  for (int i = 0; i < message.real_oneof_decl_count(); ++i)
    choices.push_back(ChoiceSchema(*message.oneof_decl(i)));
  members.emplace_back("properties", absl::StrCat("{", absl::StrJoin(fields, ","), "}"));
  members.emplace_back("additionalProperties", "false");
  if (!choices.empty()) members.emplace_back("allOf", Array(choices));
  return Object(members);
}

std::string EnumSchema(const EnumDescriptor& type) {
  std::vector<std::string> names;
  std::string text = CommentOf(type);
  for (int i = 0; i < type.value_count(); ++i) {
    names.push_back(JsonQuoted(type.value(i)->name()));
    const std::string comment = CommentOf(*type.value(i));
    if (!comment.empty())
      absl::StrAppend(&text, text.empty() ? "" : " ", type.value(i)->name(), ": ", comment);
  }
  Members members;
  AddDescription(text, members);
  members.emplace_back("enum", Array(names));
  return Object(members);
}

void AddDefinition(const std::string& name, const std::string& schema,
                   std::vector<std::string>& definitions) {
  definitions.push_back(absl::StrCat("\n    ", JsonQuoted(name), ": ", schema));
}

void AddMessage(const Descriptor& message, std::vector<std::string>& definitions) {
  AddDefinition(NameOf(message), MessageSchema(message), definitions);
  for (int i = 0; i < message.enum_type_count(); ++i) {
    AddDefinition(NameOf(*message.enum_type(i)), EnumSchema(*message.enum_type(i)), definitions);
  }
  for (int i = 0; i < message.nested_type_count(); ++i) AddMessage(*message.nested_type(i), definitions);
}

}  // namespace

std::string JobSchema() {
  google::protobuf::FileDescriptorSet files;
  TETHYS_CHECK(files.ParseFromArray(JobDescriptor().data(), static_cast<int>(JobDescriptor().size())) &&
                   files.file_size() == 1,
               "the program holds no descriptor of job.proto");
  google::protobuf::DescriptorPool pool;
  const FileDescriptor* file = pool.BuildFile(files.file(0));
  TETHYS_CHECK(file != nullptr, "the descriptor of job.proto is wrong");
  std::vector<std::string> definitions;
  for (int i = 0; i < file->message_type_count(); ++i) AddMessage(*file->message_type(i), definitions);
  for (int i = 0; i < file->enum_type_count(); ++i) {
    AddDefinition(NameOf(*file->enum_type(i)), EnumSchema(*file->enum_type(i)), definitions);
  }
  return absl::StrCat("{\n  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n",
                      "  \"title\": \"A job of Tethys\",\n  \"$ref\": \"#/$defs/Job\",\n  \"$defs\": {",
                      absl::StrJoin(definitions, ","), "\n  }\n}\n");
}

}  // namespace tethys
