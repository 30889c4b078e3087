#include "runtime/job/commented_text.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tethys {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr size_t kWidth = 100;  // The most columns of a message in one line.

// One field of a message or, of a list, one element or a whole list of numbers.
struct Item {
  std::string name;               // The field's name.
  std::string value;              // The text of a value; empty for a message.
  std::vector<Item> fields = {};  // The fields of a message.
  bool is_message = false;
  FieldComment comment = {};

  // True if one line would hold more than a reader sees at once.
  bool NeedsLines() const {
    const auto messages =
        std::count_if(fields.begin(), fields.end(), [](const Item& field) { return field.is_message; });
    return messages > 1 || HasComments();
  }
  bool HasComments() const {
    for (const Item& field : fields) {
      if (!field.comment.empty() || field.HasComments()) return true;
    }
    return false;
  }
};

std::string OneLine(const Item& item) {
  if (!item.is_message) return absl::StrCat(item.name, ": ", item.value);
  std::vector<std::string> inner;
  for (const Item& field : item.fields) inner.push_back(OneLine(field));
  return absl::StrCat(item.name, inner.empty() ? " {}" : " { ", absl::StrJoin(inner, " "),
                      inner.empty() ? "" : " }");
}

std::string ValueText(const Message& message, const FieldDescriptor& field, int index) {
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_STRING) {
    std::string text;
    google::protobuf::TextFormat::PrintFieldValueToString(message, &field, index, &text);
    return text;
  }
  const Reflection& reflection = *message.GetReflection();
  const std::string value = index < 0 ? reflection.GetString(message, &field)
                                      : reflection.GetRepeatedString(message, &field, index);
  return absl::StrCat("\"", absl::Utf8SafeCEscape(value), "\"");
}

class ItemReader {
 public:
  explicit ItemReader(absl::FunctionRef<FieldComment(const std::string&)> comment_of)
      : comment_of_(comment_of) {}

  std::vector<Item> Read(const Message& message, const std::string& prefix) {
    const Reflection& reflection = *message.GetReflection();
    std::vector<const FieldDescriptor*> fields;
    reflection.ListFields(message, &fields);
    std::sort(fields.begin(), fields.end(),
              [](const FieldDescriptor* a, const FieldDescriptor* b) { return a->index() < b->index(); });
    std::vector<Item> items;
    for (const FieldDescriptor* field : fields) {
      const std::string path = absl::StrCat(prefix, field->name());
      if (!field->is_repeated()) {
        items.push_back(ReadElement(message, *field, -1, path));
        continue;
      }
      std::vector<Item> elements;
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        elements.push_back(ReadElement(message, *field, i, absl::StrCat(path, "[", i, "]")));
      }
      if (IsShortList(*field, elements)) elements = {Joined(elements)};
      items.insert(items.end(), elements.begin(), elements.end());
    }
    return items;
  }

 private:
  Item ReadElement(const Message& message, const FieldDescriptor& field, int index, const std::string& path) {
    Item item = {.name = field.name(), .value = {}};
    item.comment = comment_of_(path);
    item.is_message = field.message_type() != nullptr;
    if (!item.is_message) {
      item.value = ValueText(message, field, index);
      return item;
    }
    const Reflection& reflection = *message.GetReflection();
    item.fields = Read(index < 0 ? reflection.GetMessage(message, &field)
                                 : reflection.GetRepeatedMessage(message, &field, index),
                       path + ".");
    return item;
  }

  // True for a list of numbers that can be written as "[28, 28]", because only its first element has a
  // comment.
  static bool IsShortList(const FieldDescriptor& field, const std::vector<Item>& elements) {
    if (field.message_type() != nullptr || field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) return false;
    for (size_t i = 1; i < elements.size(); ++i) {
      if (!elements[i].comment.empty()) return false;
    }
    return elements.size() > 1;
  }

  static Item Joined(const std::vector<Item>& elements) {
    Item item = elements.front();
    std::vector<std::string> values;
    for (const Item& element : elements) values.push_back(element.value);
    item.value = absl::StrCat("[", absl::StrJoin(values, ", "), "]");
    return item;
  }

  const absl::FunctionRef<FieldComment(const std::string&)> comment_of_;
};

void Write(const std::vector<Item>& items, const std::string& indent, std::string& text) {
  for (const Item& item : items) {
    for (const std::string& line : item.comment.above) {
      absl::StrAppend(&text, line.empty() ? "" : indent, line, "\n");
    }
    const std::string beside = item.comment.beside.empty() ? "" : absl::StrCat("  ", item.comment.beside);
    const std::string one_line = OneLine(item);
    const bool fits = indent.size() + one_line.size() <= kWidth && !item.NeedsLines();
    if (!item.is_message || item.fields.empty() || fits) {
      absl::StrAppend(&text, indent, one_line, beside, "\n");
      continue;
    }
    absl::StrAppend(&text, indent, item.name, " {", beside, "\n");
    Write(item.fields, indent + "  ", text);
    absl::StrAppend(&text, indent, "}\n");
  }
}

}  // namespace

std::string CommentedText(const Message& message,
                          absl::FunctionRef<FieldComment(const std::string& path)> comment_of) {
  std::string text;
  Write(ItemReader(comment_of).Read(message, ""), "", text);
  return text;
}

}  // namespace tethys
