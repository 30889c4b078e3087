#include "deploy/data_files/data_listing.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "deploy/text.h"
#include "deploy/whole_file.h"
#include "runtime/data/class_names.h"
#include "runtime/data/data_format.h"
#include "runtime/data/picture.h"

namespace tethys {
namespace {

constexpr int64_t kFirst = 10;  // The number of labels that are shown of each split.
// With more classes than this, a listing names only the rarest and the most frequent class.
constexpr size_t kMostClassesListed = 100;

struct Split {
  const char* name;
  const Dataset* dataset;
};

std::vector<Split> SplitsOf(const Datasets& datasets) {
  std::vector<Split> splits = {{"train", datasets.train.get()}};
  if (datasets.validation != nullptr) splits.push_back({"validation", datasets.validation.get()});
  if (datasets.test != nullptr) splits.push_back({"test", datasets.test.get()});
  return splits;
}

// The number of labels of each class; in a map of labels, every pixel counts as a label.
using ClassCounts = std::map<int32_t, int64_t>;

absl::StatusOr<ClassCounts> CountClasses(const Dataset& dataset) {
  std::vector<int32_t> labels(dataset.label_format().elements());
  ClassCounts counts;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    TETHYS_RETURN_IF_ERROR(dataset.ReadLabels(i, labels.data()));
    for (const int32_t label : labels) ++counts[label];
  }
  return counts;
}

// The name of the class `label`; empty for a label that the loss ignores, which is no class.
std::string NameOf(int32_t label, const std::vector<std::string>& names) {
  return label >= 0 && static_cast<size_t>(label) < names.size() ? names[label] : "";
}

// `names` has the name of each class, or is empty.
std::string CountsTable(const std::vector<Split>& splits, const std::vector<ClassCounts>& counts,
                        const std::vector<std::string>& names) {
  std::map<int32_t, std::vector<std::string>> rows;
  for (const ClassCounts& split : counts) {
    for (const auto& [label, count] : split) {
      rows[label] = {absl::StrCat(label)};
      if (!names.empty()) rows[label].push_back(NameOf(label, names));
    }
  }
  std::vector<Column> columns = {{.header = {"class"}}};
  if (!names.empty()) columns.push_back({.header = {"name"}, .left = true});
  for (size_t i = 0; i < splits.size(); ++i) {
    columns.push_back({.header = {splits[i].name}});
    for (auto& [label, row] : rows) {
      const auto found = counts[i].find(label);
      row.push_back(CountText(found == counts[i].end() ? 0 : found->second));
    }
  }
  std::vector<std::vector<std::string>> cells;
  for (auto& [label, row] : rows) cells.push_back(std::move(row));
  return Table(columns, cells);
}

std::string CountsSummary(const Split& split, const ClassCounts& counts) {
  const auto fewer = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto [rarest, most] = std::minmax_element(counts.begin(), counts.end(), fewer);
  return absl::StrFormat("%s: %d classes, from %s samples of class %d to %s samples of class %d\n",
                         split.name, counts.size(), CountText(rarest->second), rarest->first,
                         CountText(most->second), most->first);
}

absl::StatusOr<std::string> ClassesText(const std::vector<Split>& splits, const LabelFormat& format,
                                        const std::vector<std::string>& names) {
  std::vector<ClassCounts> counts;
  size_t most = 0;
  for (const Split& split : splits) {
    TETHYS_ASSIGN_OR_RETURN(ClassCounts of_split, CountClasses(*split.dataset));
    most = std::max(most, of_split.size());
    counts.push_back(std::move(of_split));
  }
  std::string text = format.shape.empty() ? "\n" : "\npixels of each class\n";
  if (most <= kMostClassesListed) return text + CountsTable(splits, counts, names);
  for (size_t i = 0; i < splits.size(); ++i) text += CountsSummary(splits[i], counts[i]);
  return text;
}

// The labels of the first samples; empty unless each sample has a single label.
absl::StatusOr<std::string> FirstLabels(const Dataset& dataset) {
  std::string text;
  for (int64_t i = 0; i < std::min(kFirst, dataset.size()); ++i) {
    int32_t label = 0;
    TETHYS_RETURN_IF_ERROR(dataset.ReadLabels(i, &label));
    float target = 0;
    std::memcpy(&target, &label, sizeof(target));
    absl::StrAppend(&text, i == 0 ? "" : " ",
                    dataset.label_format().targets ? absl::StrCat(target) : absl::StrCat(label));
  }
  return text;
}

}  // namespace

absl::StatusOr<std::string> DataListing(const proto::Job& job, const Datasets& datasets) {
  const std::vector<Split> splits = SplitsOf(datasets);
  const SampleSpec& spec = datasets.train->spec();
  std::string text = absl::StrCat("data    ", FormatOf(job.data()).place(job.data()), "\nsample  ",
                                  ShapeText(spec.shape), " of ", ValueTypeText(spec.type), " (",
                                  BytesText(spec.bytes()), ")\nlabels  ", LabelText(spec.labels), "\n\n");
  std::vector<std::vector<std::string>> rows;
  const bool single = spec.labels.elements() == 1;
  for (const Split& split : splits) {
    rows.push_back({split.name, CountText(split.dataset->size())});
    if (!single) continue;
    TETHYS_ASSIGN_OR_RETURN(std::string first, FirstLabels(*split.dataset));
    rows.back().push_back(std::move(first));
  }
  std::vector<Column> columns = {{.header = {"split"}, .left = true}, {.header = {"samples"}}};
  if (single) columns.push_back({.header = {"first labels"}, .left = true});
  text += Table(columns, rows);
  if (spec.labels.targets) return text;
  TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> names, ClassNamesOf(job.data()));
  TETHYS_ASSIGN_OR_RETURN(const std::string classes, ClassesText(splits, spec.labels, names));
  return text + classes;
}

absl::Status CheckSamples(const Datasets& datasets) {
  constexpr int64_t kMostNamed = 20;
  const SampleSpec& spec = datasets.train->spec();
  std::vector<float> values((spec.bytes() + static_cast<int64_t>(sizeof(float)) - 1) /
                            // The buffer consists of whole floats, so that it is aligned for samples of bytes
                            // and of floats.
                            static_cast<int64_t>(sizeof(float)));
  std::vector<int32_t> labels(spec.labels.elements());
  std::string reasons;
  int64_t bad = 0, all = 0;
  for (const Split& split : SplitsOf(datasets)) {
    for (int64_t i = 0; i < split.dataset->size(); ++i, ++all) {
      const absl::Status status =
          split.dataset->Read(i, reinterpret_cast<uint8_t*>(values.data()), labels.data());
      if (status.ok() || ++bad > kMostNamed) continue;
      absl::StrAppend(&reasons, "\n  ", split.name, ": ", status.message());
    }
  }
  if (bad == 0) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(CountText(bad), " of ", PluralText(all, "sample"), " cannot be read",
                   bad > kMostNamed ? absl::StrCat("; the first ", kMostNamed) : "", ":", reasons));
}

absl::StatusOr<int64_t> WriteFirstImages(const Datasets& datasets, int64_t count, const std::string& folder) {
  const SampleSpec& spec = datasets.train->spec();
  if (!IsPicture(spec.shape) || spec.type != ValueType::kByte) {
    return absl::InvalidArgumentError(
        absl::StrCat("--images: the samples are ", ShapeText(spec.shape), " of ", ValueTypeText(spec.type),
                     ", but only pictures can be written: [height, width] or [height, width, channels] "
                     "of bytes, with 1 or 3 channels; leave --images out"));
  }
  TETHYS_RETURN_IF_ERROR(CreateDirectories(folder));
  std::vector<uint8_t> values(spec.elements());
  std::vector<int32_t> labels(spec.labels.elements());
  int64_t written = 0;
  for (const Split& split : SplitsOf(datasets)) {
    for (int64_t i = 0; i < std::min(count, split.dataset->size()); ++i, ++written) {
      TETHYS_RETURN_IF_ERROR(split.dataset->Read(i, values.data(), labels.data()));
      const bool one = spec.labels.shape.empty() && !spec.labels.targets;
      TETHYS_ASSIGN_OR_RETURN(const std::string png, EncodePng(values.data(), spec.shape));
      TETHYS_ASSIGN_OR_RETURN(
          WholeFile file, WholeFile::Create(absl::StrFormat("%s/%s-%05d%s.png", folder, split.name, i,
                                                            one ? absl::StrCat("-label-", labels[0]) : "")));
      TETHYS_RETURN_IF_ERROR(file.Append(png));
      TETHYS_RETURN_IF_ERROR(file.Commit());
    }
  }
  return written;
}

}  // namespace tethys
