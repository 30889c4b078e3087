#include "runtime/job/field_places.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/job/job_fields.h"
#include "runtime/job/text_format_file.h"

namespace tethys {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;
using google::protobuf::Reflection;
using google::protobuf::TextFormat;

void FieldPlaces::PutOver(const std::string& file, const Message& message,
                          const TextFormat::ParseInfoTree& tree) {
  file_ = file;
  type_ = message.GetDescriptor();
  Add("", message, &tree);
}

// `tree` is null if the parser recorded nothing inside the message.
void FieldPlaces::Add(const std::string& prefix, const Message& message,
                      const TextFormat::ParseInfoTree* tree) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string path = absl::StrCat(prefix, field->name());
    if (field->is_repeated()) Erase(path);
    if (const OneofDescriptor* oneof = field->real_containing_oneof()) {
      for (int i = 0; i < oneof->field_count(); ++i) {
        if (oneof->field(i) != field) Erase(absl::StrCat(prefix, oneof->field(i)->name()));
      }
    }
    std::string place = file_;
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const int index = field->is_repeated() ? i : -1;
      // The parser records one place for all elements of a list such as "[1, 2]".
      if (tree != nullptr && tree->GetLocation(field, index).line >= 0) {
        const auto location = tree->GetLocation(field, index);
        place = PlaceText(file_, location.line, location.column);
      }
      const std::string element = field->is_repeated() ? absl::StrCat(path, "[", i, "]") : path;
      places_[element] = place;
      if (field->message_type() == nullptr) continue;
      Add(absl::StrCat(element, "."),
          field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                               : reflection.GetMessage(message, field),
          tree == nullptr ? nullptr : tree->GetTreeForNested(field, index));
    }
  }
}

// Erases the place of the field at `path`, and the places of all fields within it.
void FieldPlaces::Erase(const std::string& path) {
  auto it = places_.lower_bound(path);
  while (it != places_.end() && absl::StartsWith(it->first, path)) {
    const char next = it->first.size() == path.size() ? '.' : it->first[path.size()];
    it = next == '.' || next == '[' ? places_.erase(it) : std::next(it);
  }
}

std::string FieldPlaces::Find(absl::string_view path) const {
  std::string place = file_;
  const absl::StatusOr<std::vector<PathStep>> steps = ParsePath(path);
  if (!steps.ok()) return place;
  const Descriptor* type = type_;
  std::string key;
  for (const PathStep& step : *steps) {
    const FieldDescriptor* field = type == nullptr ? nullptr : type->FindFieldByName(step.name);
    if (field == nullptr) break;
    absl::StrAppend(&key, key.empty() ? "" : ".", step.name);
    if (field->is_repeated()) absl::StrAppend(&key, "[", std::max(step.index, 0), "]");
    const auto found = places_.find(key);
    if (found == places_.end()) break;
    place = found->second;
    type = field->message_type();
  }
  return place;
}

}  // namespace tethys
