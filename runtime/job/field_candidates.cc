#include "runtime/job/field_candidates.h"

#include <google/protobuf/descriptor.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/job.pb.h"
#include "runtime/job/job_fields.h"

namespace tethys {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::OneofDescriptor;

// The end of a path: a field or a choice, in the message that holds it. All are null if there is no such
// path.
struct PathEnd {
  const FieldDescriptor* field = nullptr;
  const OneofDescriptor* choice = nullptr;
};

PathEnd FindPath(const Descriptor& type, absl::string_view path) {
  const auto steps = ParsePath(path);
  if (!steps.ok()) return {};
  const Descriptor* holder = &type;
  PathEnd end;
  for (const PathStep& step : *steps) {
    if (holder == nullptr) return {};
    end = {holder->FindFieldByName(step.name), holder->FindOneofByName(step.name)};
    holder = end.field == nullptr ? nullptr : end.field->message_type();
  }
  return end;
}

// The members of a choice that a flag can choose by their names: messages, since a value would need more.
std::vector<std::string> MembersOf(const OneofDescriptor* choice) {
  std::vector<std::string> members;
  for (int i = 0; choice != nullptr && i < choice->field_count(); ++i) {
    if (choice->field(i)->message_type() != nullptr) members.push_back(choice->field(i)->name());
  }
  return members;
}

// The one choice of a message, which a path can set by the message's name; null if there is none.
const OneofDescriptor* OnlyChoice(const Descriptor* type) {
  return type != nullptr && type->real_oneof_decl_count() == 1 ? type->oneof_decl(0) : nullptr;
}

std::vector<std::string> Values(const PathEnd& end) {
  if (end.field == nullptr) return MembersOf(end.choice);
  if (end.field->message_type() != nullptr) return MembersOf(OnlyChoice(end.field->message_type()));
  if (end.field->type() == FieldDescriptor::TYPE_BOOL) return {"true", "false"};
  std::vector<std::string> values;
  const auto* const words = end.field->enum_type();
  for (int i = 0; words != nullptr && i < words->value_count(); ++i)
    values.push_back(words->value(i)->name());
  return values;
}

// What may follow the path of a message: each field with "." or "=".
std::vector<std::string> FieldsOf(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.number() == proto::Job::kBaseFieldNumber && &type == proto::Job::descriptor())
      continue;  // Files only.
    if (field.message_type() == nullptr) {
      names.push_back(field.name() + "=");
      continue;
    }
    names.push_back(absl::StrCat(field.name(), field.is_repeated() ? "[0]." : "."));
    const bool choice = !field.is_repeated() && !MembersOf(OnlyChoice(field.message_type())).empty();
    if (choice) names.push_back(field.name() + "=");
  }
  for (int i = 0; i < type.real_oneof_decl_count(); ++i) {
    if (!MembersOf(type.oneof_decl(i)).empty()) names.push_back(type.oneof_decl(i)->name() + "=");
  }
  return names;
}

}  // namespace

std::vector<std::string> FieldCandidates(absl::string_view text) {
  const Descriptor& type = *proto::Job::descriptor();
  const size_t equals = text.find('=');
  const size_t dot = text.rfind('.');
  const size_t done = equals != absl::string_view::npos ? equals + 1
                      : dot != absl::string_view::npos  ? dot + 1
                                                        : 0;  // Where the unfinished name begins.
  std::vector<std::string> names;
  if (done == 0) {
    names = FieldsOf(type);
  } else {
    const PathEnd end = FindPath(type, text.substr(0, done - 1));
    if (equals != absl::string_view::npos) {
      names = Values(end);
    } else if (end.field != nullptr && end.field->message_type() != nullptr) {
      names = FieldsOf(*end.field->message_type());
    }
  }
  std::vector<std::string> candidates;
  for (const std::string& name : names) {
    std::string candidate = absl::StrCat(text.substr(0, done), name);
    if (absl::StartsWith(candidate, text)) candidates.push_back(std::move(candidate));
  }
  return candidates;
}

}  // namespace tethys
