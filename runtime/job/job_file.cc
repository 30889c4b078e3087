#include "runtime/job/job_file.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <numeric>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/base/file.h"
#include "runtime/job/job_fields.h"
#include "runtime/job/job_validation.h"
#include "runtime/job/text_format_file.h"

namespace tethys {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::TextFormat;

constexpr int64_t kMaxJobFileBytes = 1 << 20;

// The text between `before` and the next quote, or nothing.
absl::string_view Quoted(absl::string_view text, absl::string_view before) {
  const size_t begin = text.find(before);
  if (begin == absl::string_view::npos) return "";
  text.remove_prefix(begin + before.size());
  return text.substr(0, text.find('"'));
}

// The first enum field of that name in any message of the job file's schema.
const FieldDescriptor* FindEnumField(absl::string_view name) {
  const auto& file = *proto::Job::descriptor()->file();
  for (int i = 0; i < file.message_type_count(); ++i) {
    const FieldDescriptor* field = file.message_type(i)->FindFieldByName(std::string(name));
    if (field != nullptr && field->enum_type() != nullptr) return field;
  }
  return nullptr;
}

// An error message of protobuf's parser, with a remedy if the wording is recognised. The wording is that of
// protobuf 3.21; with another version only the remedy is missing.
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

// Finds the place where a field got its value.
class Locations {
 public:
  // `overrides` are in the order applied, each as it was written: "--set=FIELD=VALUE".
  Locations(absl::string_view file, const TextFormat::ParseInfoTree& tree,
            absl::Span<const std::string> overrides)
      : file_(file), tree_(tree), overrides_(overrides) {}

  // The last override that set the field, a part of it or a message around it. If there is none: the place in
  // the file of the field, or of the nearest message around it.
  std::string Find(absl::string_view field) const {
    for (auto it = overrides_.rbegin(); it != overrides_.rend(); ++it) {
      absl::string_view path = *it;
      path.remove_prefix(path.find('=') + 1);
      path = path.substr(0, path.find('='));
      if (Within(path, field) || Within(field, path)) return *it;
    }
    return FindInFile(field);
  }

 private:
  static bool Within(absl::string_view inner, absl::string_view outer) {
    return absl::StartsWith(inner, outer) &&
           (inner.size() == outer.size() || inner[outer.size()] == '.' || inner[outer.size()] == '[');
  }

  std::string FindInFile(absl::string_view path) const {
    const absl::StatusOr<std::vector<PathStep>> steps = ParsePath(path);
    if (!steps.ok()) return std::string(file_);
    return PlaceInFile(file_, tree_, *proto::Job::descriptor(), *steps);
  }

  const absl::string_view file_;
  const TextFormat::ParseInfoTree& tree_;
  const absl::Span<const std::string> overrides_;
};

// `flag` is "--set=" or "--vary=". Adds the override, as written on the command line, to `applied`.
absl::Status ApplyOverride(absl::string_view flag, const std::string& text, proto::Job& job,
                           std::vector<std::string>& applied) {
  applied.push_back(absl::StrCat(flag, text));
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
  if (!absl::StrContains(text, '=')) {
    return absl::InvalidArgumentError(absl::StrCat(flag, text, ": write FIELD=VALUE, for example epochs=5"));
  }
  return Annotate(SetField(parts.first, parts.second, job), absl::StrCat(flag, text));
}

// The order in which to apply variations: by length of path, so that variations that choose a oneof member
// (strategy=...) precede those that set its fields.
std::vector<size_t> ByDepth(absl::Span<const std::string> variations) {
  std::vector<size_t> order(variations.size());
  std::iota(order.begin(), order.end(), 0);
  const auto depth = [&](size_t i) {
    const std::string& text = variations[i];
    return std::count(text.begin(), text.begin() + std::min(text.find('='), text.size()), '.');
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return depth(a) < depth(b); });
  return order;
}

// "examples/my job.textproto" gives "my_job".
std::string NameFromFile(const std::string& file_name) {
  std::string name = std::filesystem::path(file_name).stem().string();
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c) && c != '-' && c != '.'; },
      '_');
  return name.empty() ? "job" : name.substr(0, 100);
}

// A job as written: before defaults, and with the places where its fields got their values.
struct WrittenJob {
  JobVariant variant;
  TextFormat::ParseInfoTree tree;
  std::vector<std::string> applied;  // "--set=FIELD=VALUE", "--vary=..."
};

absl::Status ReadFields(absl::string_view text, const std::string& file_name,
                        absl::Span<const std::string> overrides, absl::Span<const std::string> variations,
                        WrittenJob& written) {
  written.variant.varied.assign(variations.size(), false);
  proto::Job& job = written.variant.job;
  TETHYS_RETURN_IF_ERROR(ParseTextFormat(text, file_name, WithRemedy, job, written.tree));
  for (const std::string& override : overrides) {
    TETHYS_RETURN_IF_ERROR(ApplyOverride("--set=", override, job, written.applied));
  }
  for (const size_t i : ByDepth(variations)) {
    const std::string& variation = variations[i];
    if (IsOfAnotherChoice(variation.substr(0, variation.find('=')), job)) continue;
    written.variant.varied[i] = true;
    TETHYS_RETURN_IF_ERROR(ApplyOverride("--vary=", variation, job, written.applied));
  }
  return absl::OkStatus();
}

absl::StatusOr<JobVariant> ParseVariant(absl::string_view text, const std::string& file_name,
                                        absl::Span<const std::string> overrides,
                                        absl::Span<const std::string> variations) {
  WrittenJob written;
  TETHYS_RETURN_IF_ERROR(ReadFields(text, file_name, overrides, variations, written));
  proto::Job& job = written.variant.job;
  if (!job.has_name()) job.set_name(NameFromFile(file_name));
  const Locations locations(file_name, written.tree, written.applied);
  TETHYS_RETURN_IF_ERROR(ResolveJob([&](absl::string_view field) { return locations.Find(field); }, job));
  return std::move(written.variant);
}

// The field that an error message begins with: "model.layer[1]"; empty if it begins with no field.
std::string LeadingField(absl::string_view message) {
  const size_t end = message.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.[]");
  const std::string field(message.substr(0, end));
  const absl::StatusOr<std::vector<PathStep>> steps = ParsePath(field);
  const bool known = steps.ok() && proto::Job::descriptor()->FindFieldByName((*steps)[0].name) != nullptr;
  return known ? field : "";
}

}  // namespace

absl::StatusOr<proto::Job> ParseJob(absl::string_view text, const std::string& file_name,
                                    absl::Span<const std::string> overrides) {
  TETHYS_ASSIGN_OR_RETURN(JobVariant variant, ParseVariant(text, file_name, overrides, {}));
  return std::move(variant.job);
}

absl::StatusOr<proto::Job> LoadJob(const std::string& path, absl::Span<const std::string> overrides) {
  TETHYS_ASSIGN_OR_RETURN(JobVariant variant, LoadJobVariant(path, overrides, {}));
  return std::move(variant.job);
}

absl::StatusOr<proto::Job> LoadData(const std::string& path, absl::Span<const std::string> overrides) {
  TETHYS_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxJobFileBytes));
  WrittenJob written;
  TETHYS_RETURN_IF_ERROR(ReadFields(text, path, overrides, {}, written));
  const proto::Job& given = written.variant.job;
  proto::Job job;
  if (given.has_data()) *job.mutable_data() = given.data();
  if (given.model().has_loss()) *job.mutable_model()->mutable_loss() = given.model().loss();
  // The least that a valid job has besides, so that the data is checked as that of any job.
  job.set_name("data");
  job.mutable_model()->add_layer()->mutable_dense()->set_units(std::max<int64_t>(given.data().classes(), 1));
  job.mutable_optimizer()->mutable_sgd();
  job.mutable_optimizer()->set_learning_rate(1);
  job.set_batch_size_per_worker(1);
  job.set_epochs(1);
  const Locations locations(path, written.tree, written.applied);
  TETHYS_RETURN_IF_ERROR(ResolveJob([&](absl::string_view field) { return locations.Find(field); }, job));
  return job;
}

absl::StatusOr<JobVariant> LoadJobVariant(const std::string& path, absl::Span<const std::string> overrides,
                                          absl::Span<const std::string> variations) {
  TETHYS_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxJobFileBytes));
  return ParseVariant(text, path, overrides, variations);
}

absl::Status WithPlace(const absl::Status& status, const std::string& path,
                       absl::Span<const std::string> overrides, absl::Span<const std::string> variations) {
  const std::string field = LeadingField(status.message());
  const absl::StatusOr<std::string> text = ReadFile(path, kMaxJobFileBytes);
  WrittenJob written;
  if (field.empty() || !text.ok() || !ReadFields(*text, path, overrides, variations, written).ok())
    return status;
  return Annotate(status, Locations(path, written.tree, written.applied).Find(field));
}

}  // namespace tethys
