#include "runtime/data/chief_paths.h"

#include <fnmatch.h>

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tethys {
namespace {

constexpr char kScheme[] = "chief://";
constexpr absl::string_view kArchive = ".npz#";

// Calls `visit` with the message in data.SOURCE and each of its fields that contain paths, which are the
// fields of type bytes.
template <typename Visit>
void VisitPathFields(proto::Data& data, const Visit& visit) {
  using google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& of_data = *data.GetReflection();
  const FieldDescriptor* const chosen =
      of_data.GetOneofFieldDescriptor(data, data.GetDescriptor()->FindOneofByName("source"));
  if (chosen == nullptr) return;
  google::protobuf::Message& source = *of_data.MutableMessage(&data, chosen);
  for (int i = 0; i < source.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *source.GetDescriptor()->field(i);
    if (field.type() == FieldDescriptor::TYPE_BYTES) visit(source, field);
  }
}

}  // namespace

absl::optional<ChiefPath> ChiefPathOf(absl::string_view text, bool pattern) {
  if (!absl::ConsumePrefix(&text, kScheme)) return absl::nullopt;
  ChiefPath named = {.path = std::string(text), .member = "", .pattern = pattern};
  if (const size_t at = text.find(kArchive); at != absl::string_view::npos) {
    const size_t end = at + kArchive.size() - 1;
    named.path = std::string(text.substr(0, end));
    named.member = std::string(text.substr(end));
  }
  return named;
}

void ReplacePaths(
    proto::Data& data,
    absl::FunctionRef<std::vector<std::string>(const std::string& path, bool several)> replace) {
  VisitPathFields(
      data, [&](google::protobuf::Message& source, const google::protobuf::FieldDescriptor& field) {
        const google::protobuf::Reflection& reflection = *source.GetReflection();
        if (!field.is_repeated()) {
          if (!reflection.HasField(source, &field)) return;
          std::vector<std::string> paths = replace(reflection.GetString(source, &field), false);
          TETHYS_CHECK(paths.size() == 1);
          return reflection.SetString(&source, &field, std::move(paths[0]));
        }
        std::vector<std::string> all;
        for (int i = 0; i < reflection.FieldSize(source, &field); ++i) {
          for (std::string& path : replace(reflection.GetRepeatedString(source, &field, i), true)) {
            all.push_back(std::move(path));
          }
        }
        reflection.ClearField(&source, &field);
        for (std::string& path : all) reflection.AddString(&source, &field, std::move(path));
      });
}

absl::StatusOr<std::vector<ChiefPath>> ChiefPathsOf(const proto::Data& data) {
  std::vector<ChiefPath> found;
  proto::Data copy = data;
  ReplacePaths(copy, [&](const std::string& path, bool several) {
    if (absl::optional<ChiefPath> named = ChiefPathOf(path, several)) found.push_back(*std::move(named));
    return std::vector<std::string>{path};
  });
  for (const ChiefPath& named : found) {
    if (!named.path.empty() && !absl::EndsWith(named.path, "/") && StaysBelow(named.path)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("data: ", kScheme, named.path,
                     ": must be the path of a file, a pattern or a folder, without \"..\" and "
                     "without a slash at its end"));
  }
  return found;
}

proto::Data OnChiefsMachine(const proto::Data& data) {
  proto::Data here = data;
  ReplacePaths(here, [](const std::string& path, bool) {
    return std::vector<std::string>{std::string(absl::StripPrefix(path, kScheme))};
  });
  return here;
}

bool Covers(const ChiefPath& named, const std::string& file) {
  if (file == named.path || absl::StartsWith(file, named.path + "/")) return true;
  return named.pattern && fnmatch(named.path.c_str(), file.c_str(), FNM_PATHNAME | FNM_PERIOD) == 0;
}

bool StaysBelow(absl::string_view path) {
  return path.find('\0') == absl::string_view::npos &&
         absl::c_none_of(absl::StrSplit(path, '/'), [](absl::string_view part) { return part == ".."; });
}

}  // namespace tethys
