#include "runtime/job/text_format_file.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>

#include <algorithm>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/base/text_encoding.h"

namespace tethys {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::TextFormat;

class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  FirstError(absl::string_view file, absl::FunctionRef<std::string(const std::string&)> reword)
      : file_(file), reword_(reword) {}
  void AddError(int line, int column, const std::string& message) override {
    if (text_.empty()) text_ = absl::StrCat(PlaceText(file_, line, column), ": ", reword_(message));
  }
  void AddWarning(int, int, const std::string&) override {}
  const std::string& text() const { return text_; }

 private:
  const absl::string_view file_;
  const absl::FunctionRef<std::string(const std::string&)> reword_;
  std::string text_;
};

}  // namespace

std::string PlaceText(absl::string_view file, int line, int column) {
  return absl::StrCat(file, ":", line + 1, ":", column + 1);
}

TextPlace ParsePlace(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  const size_t count = parts.size();
  TextPlace place;
  if (count < 3 || !absl::SimpleAtoi(parts[count - 2], &place.line) ||
      !absl::SimpleAtoi(parts[count - 1], &place.column)) {
    return {.file = std::string(text)};
  }
  place.file =
      std::string(text.substr(0, text.size() - parts[count - 2].size() - parts[count - 1].size() - 2));
  return place;
}

absl::Status ParseTextFormat(absl::string_view text, absl::string_view file,
                             absl::FunctionRef<std::string(const std::string&)> reword,
                             google::protobuf::Message& message, TextFormat::ParseInfoTree& tree) {
  TETHYS_ASSIGN_OR_RETURN(const absl::string_view plain, WithoutByteOrderMark(text, file));
  FirstError error(file, reword);
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.WriteLocationsTo(&tree);
  if (parser.ParseFromString(std::string(plain), &message)) return absl::OkStatus();
  return absl::InvalidArgumentError(error.text());
}

std::string PlaceInFile(absl::string_view file, const TextFormat::ParseInfoTree& root,
                        const Descriptor& root_type, absl::Span<const PathStep> steps) {
  std::string place(file);
  const TextFormat::ParseInfoTree* tree = &root;
  const Descriptor* type = &root_type;
  for (const PathStep& step : steps) {
    const FieldDescriptor* field = type->FindFieldByName(step.name);
    if (field == nullptr) break;
    // The place of a whole list is the place of its first element.
    const int index = field->is_repeated() ? std::max(step.index, 0) : -1;
    const auto location = tree->GetLocation(field, index);
    if (location.line < 0) break;
    place = PlaceText(file, location.line, location.column);
    type = field->message_type();
    if (type == nullptr) break;
    tree = tree->GetTreeForNested(field, index);
    if (tree == nullptr) break;
  }
  return place;
}

}  // namespace tethys
