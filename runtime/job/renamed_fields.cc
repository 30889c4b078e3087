#include "runtime/job/renamed_fields.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "proto/job.pb.h"

namespace tethys {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr RenamedField kRenamed[] = {
    {"data.prefetch_batches", "tuning.prefetch_batches"},
    {"device.graph", "tuning.graph"},
    {"resources", "tuning.resources"},
    {"strategy.mirrored.bucket_bytes", "tuning.bucket_bytes"},
    {"strategy.mirrored.transport", "tuning.transport"},
    {"strategy.parameter_server.message_bytes", "tuning.message_bytes"},
    {"strategy.parameter_server.partitioner", "tuning.partitioner"},
};

// Splits a path before its last name: "tuning.graph" into "tuning" and "graph".
std::pair<absl::string_view, absl::string_view> SplitLast(absl::string_view path) {
  const size_t dot = path.rfind('.');
  if (dot == absl::string_view::npos) return {"", path};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

// The type of the message that `path` leads to.
const Descriptor* TypeOf(absl::string_view path) {
  const Descriptor* type = proto::Job::descriptor();
  for (const absl::string_view name : absl::StrSplit(path, '.', absl::SkipEmpty())) {
    const FieldDescriptor* field = type->FindFieldByName(std::string(name));
    if (field == nullptr || field->message_type() == nullptr) return nullptr;
    type = field->message_type();
  }
  return type;
}

std::string Text(absl::string_view former, absl::string_view now) {
  return absl::StrCat("'", former, "' is now '", now, "'");
}

}  // namespace

absl::Span<const RenamedField> RenamedFields() { return kRenamed; }

std::string RenamedText(const Descriptor& type, absl::string_view name) {
  for (const RenamedField& field : kRenamed) {
    const auto [message, last] = SplitLast(field.former);
    if (last == name && TypeOf(message) == &type) return Text(last, field.now);
  }
  return "";
}

std::string RenamedText(absl::string_view path) {
  for (const RenamedField& field : kRenamed) {
    if (!absl::StartsWith(path, field.former)) continue;
    const absl::string_view rest = path.substr(field.former.size());
    if (rest.empty() || rest[0] == '.') return Text(path, absl::StrCat(field.now, rest));
  }
  return "";
}

std::string WithPresentNames(absl::string_view text) {
  std::string kept;
  std::map<std::string, std::string> moved;  // Moved lines, keyed by the message that they move into.
  std::vector<std::string> around;           // The names of the messages around the line, outermost first.
  // The text to which lines are appended: `kept` or, within a field that moves, an element of `moved`.
  std::string* to = &kept;
  size_t depth = 0;  // The number of messages around the field that moves.
  for (const absl::string_view written : absl::StrSplit(text, '\n')) {
    const absl::string_view line = absl::StripAsciiWhitespace(written);
    const bool opens = absl::EndsWith(line, " {");
    const std::string name(line.substr(0, line.find_first_of(": ")));
    std::string renamed(written);
    if (to == &kept) {
      const std::string path = absl::StrCat(absl::StrJoin(around, "."), around.empty() ? "" : ".", name);
      for (const RenamedField& field : kRenamed) {
        if (field.former != path) continue;
        const auto [message, last] = SplitLast(field.now);
        to = &moved[std::string(message)];
        depth = around.size();
        renamed = absl::StrCat(last, line.substr(name.size()));
      }
    }
    absl::StrAppend(to, renamed, "\n");
    if (to != &kept) kept += '\n';
    if (opens) around.push_back(name);
    if (line == "}" && !around.empty()) around.pop_back();
    if (around.size() == depth) to = &kept;
  }
  if (moved.empty()) return std::string(text);
  for (const auto& [message, lines] : moved) {
    const std::vector<std::string> names = absl::StrSplit(message, '.', absl::SkipEmpty());
    absl::StrAppend(&kept, absl::StrJoin(names, " {\n"), " {\n", lines);
    for (size_t i = 0; i < names.size(); ++i) kept += "}\n";
  }
  return kept;
}

}  // namespace tethys
