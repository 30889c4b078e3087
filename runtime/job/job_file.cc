#include "runtime/job/job_file.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <numeric>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "runtime/base/plain_letters.h"
#include "runtime/job/field_places.h"
#include "runtime/job/job.h"
#include "runtime/job/job_fields.h"
#include "runtime/job/job_layers.h"
#include "runtime/job/job_validation.h"
#include "runtime/job/renamed_fields.h"

namespace tethys {
namespace {

// Finds the place where a field got its value.
class Locations {
 public:
  // `overrides` are in the order applied, each as it was written: "--set=FIELD=VALUE".
  Locations(const FieldPlaces& places, absl::Span<const std::string> overrides)
      : places_(places), overrides_(overrides) {}

  // The last override that set the field, a part of the field or a message around the field. If there is no
  // such override, the place in a file of the field or of the nearest message around the field.
  std::string Find(absl::string_view field) const {
    for (auto it = overrides_.rbegin(); it != overrides_.rend(); ++it) {
      absl::string_view path = *it;
      path.remove_prefix(path.find('=') + 1);
      path = path.substr(0, path.find('='));
      if (Within(path, field) || Within(field, path)) return *it;
    }
    return places_.Find(field);
  }

 private:
  static bool Within(absl::string_view inner, absl::string_view outer) {
    return absl::StartsWith(inner, outer) &&
           (inner.size() == outer.size() || inner[outer.size()] == '.' || inner[outer.size()] == '[');
  }

  const FieldPlaces& places_;
  const absl::Span<const std::string> overrides_;
};

absl::Status CheckPresentName(absl::string_view place, absl::string_view path) {
  const std::string renamed = RenamedText(path);
  return renamed.empty() ? absl::OkStatus() : absl::InvalidArgumentError(absl::StrCat(place, ": ", renamed));
}

// Applies the override `text` to `job`. `flag` is "--set=" or "--vary=". Adds the override, as written on the
// command line, to `applied`.
absl::Status ApplyOverride(absl::string_view flag, const std::string& text, proto::Job& job,
                           std::vector<std::string>& applied) {
  applied.push_back(absl::StrCat(flag, text));
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
  if (!absl::StrContains(text, '=')) {
    return absl::InvalidArgumentError(absl::StrCat(flag, text, ": write FIELD=VALUE, for example epochs=5"));
  }
  if (parts.first == "base") {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, text, ": the base is read before flags change the job: write it in a job file"));
  }
  TETHYS_RETURN_IF_ERROR(CheckPresentName(absl::StrCat(flag, text), parts.first));
  const bool had_family = job.model().family_case() != proto::Model::FAMILY_NOT_SET;
  TETHYS_RETURN_IF_ERROR(Annotate(SetField(parts.first, parts.second, job), absl::StrCat(flag, text)));
  // A flag that chooses a model family, such as lenet, replaces the layers that the file lists.
  const bool has_family = job.model().family_case() != proto::Model::FAMILY_NOT_SET;
  if (has_family && !had_family) job.mutable_model()->clear_layer();
  return absl::OkStatus();
}

// The order in which to apply variations: by length of path, so that variations that choose a oneof member
// (strategy=...) precede variations that set the fields of that member.
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

// "examples/my job.textproto" gives "my_job", "Käse.textproto" gives "Kase".
std::string NameFromFile(const std::string& file_name) {
  std::string name = PlainLetters(std::filesystem::path(file_name).stem().string());
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c) && c != '-' && c != '.'; },
      '_');
  const bool nothing = name.find_first_not_of('_') == std::string::npos;
  return nothing ? "job" : name.substr(0, 100);
}

// A job as written: before defaults, and with the places where its fields got their values.
struct WrittenJob {
  JobVariant variant;
  FieldPlaces places;
  std::vector<std::string> applied;  // "--set=FIELD=VALUE", "--vary=..."
};

absl::StatusOr<WrittenJob> ApplyOverrides(JobLayers layers, absl::Span<const std::string> overrides,
                                          absl::Span<const std::string> variations) {
  WrittenJob written{.variant = {}, .places = std::move(layers.places), .applied = {}};
  written.variant.varied.assign(variations.size(), false);
  proto::Job& job = written.variant.job;
  job = std::move(layers.job);
  for (const std::string& override : overrides) {
    TETHYS_RETURN_IF_ERROR(ApplyOverride("--set=", override, job, written.applied));
  }
  for (const size_t i : ByDepth(variations)) {
    const std::string& variation = variations[i];
    const std::string path = variation.substr(0, variation.find('='));
    TETHYS_RETURN_IF_ERROR(CheckPresentName(absl::StrCat("--vary=", variation), path));
    if (IsOfAnotherChoice(path, job) || !UsesField(path, job)) continue;
    written.variant.varied[i] = true;
    TETHYS_RETURN_IF_ERROR(ApplyOverride("--vary=", variation, job, written.applied));
  }
  return written;
}

absl::StatusOr<WrittenJob> ReadFields(const std::string& path, absl::Span<const std::string> overrides,
                                      absl::Span<const std::string> variations,
                                      JobWriter writer = JobWriter::kUser) {
  TETHYS_ASSIGN_OR_RETURN(JobLayers layers, ReadJobLayers(path, writer));
  return ApplyOverrides(std::move(layers), overrides, variations);
}

absl::Status Resolve(const WrittenJob& written, proto::Job& job) {
  const Locations locations(written.places, written.applied);
  return ResolveJob([&](absl::string_view field) { return locations.Find(field); }, job);
}

// The job gets its name from `file_name` if none of its files has the field `name`.
absl::StatusOr<JobVariant> ResolveVariant(WrittenJob written, const std::string& file_name) {
  proto::Job& job = written.variant.job;
  if (!job.has_name()) job.set_name(NameFromFile(file_name));
  TETHYS_RETURN_IF_ERROR(Resolve(written, job));
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
  TETHYS_ASSIGN_OR_RETURN(JobLayers layer, ParseOnlyLayer(text, file_name));
  TETHYS_ASSIGN_OR_RETURN(WrittenJob written, ApplyOverrides(std::move(layer), overrides, {}));
  TETHYS_ASSIGN_OR_RETURN(JobVariant variant, ResolveVariant(std::move(written), file_name));
  return std::move(variant.job);
}

absl::StatusOr<proto::Job> LoadJob(const std::string& path, absl::Span<const std::string> overrides) {
  TETHYS_ASSIGN_OR_RETURN(JobVariant variant, LoadJobVariant(path, overrides, {}));
  return std::move(variant.job);
}

absl::StatusOr<proto::Job> LoadRunJob(const std::string& path, absl::Span<const std::string> overrides) {
  TETHYS_ASSIGN_OR_RETURN(WrittenJob written, ReadFields(path, overrides, {}, JobWriter::kRun));
  TETHYS_ASSIGN_OR_RETURN(JobVariant variant, ResolveVariant(std::move(written), path));
  return std::move(variant.job);
}

absl::StatusOr<proto::Job> ReadRunJob(const std::string& path) {
  TETHYS_ASSIGN_OR_RETURN(WrittenJob written, ReadFields(path, {}, {}, JobWriter::kRun));
  return std::move(written.variant.job);
}

absl::StatusOr<std::string> FlatJobText(const std::string& path, absl::Span<const std::string> overrides) {
  TETHYS_ASSIGN_OR_RETURN(const WrittenJob written, ReadFields(path, overrides, {}));
  TETHYS_ASSIGN_OR_RETURN(const JobVariant valid, ResolveVariant(written, path));
  proto::Job job = written.variant.job;
  job.set_name(valid.job.name());
  return ResolvedText(job);
}

absl::StatusOr<proto::Job> LoadData(const std::string& path, absl::Span<const std::string> overrides) {
  TETHYS_ASSIGN_OR_RETURN(const WrittenJob written, ReadFields(path, overrides, {}));
  const proto::Job& given = written.variant.job;
  proto::Job job;
  if (given.has_data()) *job.mutable_data() = given.data();
  if (given.model().has_loss()) *job.mutable_model()->mutable_loss() = given.model().loss();
  if (given.tuning().has_prefetch_batches()) {
    job.mutable_tuning()->set_prefetch_batches(given.tuning().prefetch_batches());
  }
  // Sets the other fields that a valid job needs, so that the data are checked as in a complete job.
  job.set_name("data");
  job.mutable_model()->add_layer()->mutable_dense()->set_units(std::max<int64_t>(given.data().classes(), 1));
  job.mutable_optimizer()->mutable_sgd();
  job.mutable_optimizer()->set_learning_rate(1);
  job.set_batch_size_per_worker(1);
  job.set_epochs(1);
  TETHYS_RETURN_IF_ERROR(Resolve(written, job));
  return job;
}

absl::StatusOr<JobVariant> LoadJobVariant(const std::string& path, absl::Span<const std::string> overrides,
                                          absl::Span<const std::string> variations) {
  TETHYS_ASSIGN_OR_RETURN(WrittenJob written, ReadFields(path, overrides, variations));
  return ResolveVariant(std::move(written), path);
}

absl::Status WithPlace(const absl::Status& status, const std::string& path,
                       absl::Span<const std::string> overrides, absl::Span<const std::string> variations) {
  const std::string field = LeadingField(status.message());
  if (field.empty()) return status;
  // The caller has already read the file without an error. So a file with former names of fields can only be
  // the job file of a run. JobWriter::kRun accepts these names.
  const absl::StatusOr<WrittenJob> written = ReadFields(path, overrides, variations, JobWriter::kRun);
  if (!written.ok()) return status;
  return Annotate(status, Locations(written->places, written->applied).Find(field));
}

}  // namespace tethys
