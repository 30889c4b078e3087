#include "deploy/first_job/sample_facts.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "runtime/data/data_format.h"
#include "runtime/data/dataset.h"

namespace tethys {
namespace {

constexpr int64_t kMostLabels = 1 << 20;  // The most labels that are read, evenly spread over the samples.
constexpr int64_t kMostTried = 64;        // The most samples that are read to see whether they can be read.
// More classes than any data have, so that every label is accepted.
constexpr int64_t kAnyClasses = 1 << 24;

proto::Job JobOf(const proto::Data& data) {
  proto::Job job;
  *job.mutable_data() = data;
  if (!data.has_classes()) job.mutable_data()->set_classes(kAnyClasses);
  return job;
}

absl::Status TrySamplesOf(const Dataset& dataset) {
  // Whole floats, so that the memory is aligned for samples of bytes and of floats.
  std::vector<float> values(dataset.sample_bytes() / static_cast<int64_t>(sizeof(float)) + 1);
  const int64_t tried = std::min(kMostTried, dataset.size());
  for (int64_t i = 0; i < tried; ++i) {
    TETHYS_RETURN_IF_ERROR(
        dataset.ReadValues(i * dataset.size() / tried, reinterpret_cast<uint8_t*>(values.data())));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> ReadLabels(const Dataset& dataset) {
  std::vector<int32_t> labels(std::min(kMostLabels, dataset.size()));
  for (int64_t i = 0; i < static_cast<int64_t>(labels.size()); ++i) {
    TETHYS_RETURN_IF_ERROR(
        dataset.ReadLabels(i * dataset.size() / static_cast<int64_t>(labels.size()), &labels[i]));
  }
  return labels;
}

// True if equal labels stand together: there are hardly more runs of equal labels than classes.
bool AreSorted(const std::vector<int32_t>& labels, int64_t classes) {
  int64_t runs = 1;
  for (size_t i = 1; i < labels.size(); ++i) runs += labels[i] != labels[i - 1] ? 1 : 0;
  return static_cast<int64_t>(labels.size()) >= 8 * classes && runs <= 2 * classes;
}

absl::Status CheckLabels(const SampleFacts& facts, const LabelFormat& format) {
  if (!format.shape.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the labels are ", ShapeText(format.shape),
                     " for each sample, not one class: write "
                     "numpy.argmax(labels, 1) for one-hot vectors, or a job by hand for maps of labels (see "
                     "examples/sections)"));
  }
  if (facts.different_labels < 2) {
    return absl::InvalidArgumentError(absl::StrCat("every label that was read is ", facts.largest_label,
                                                   ": a network needs samples of two classes at least"));
  }
  if (2 * facts.different_labels <= facts.train) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      facts.train, " samples have ", facts.different_labels,
      " different labels, so the labels seem to be no classes: a class needs two samples at least"));
}

}  // namespace

absl::StatusOr<SampleFacts> LookAtSamples(const proto::Data& guessed) {
  const proto::Job job = JobOf(guessed);
  TETHYS_ASSIGN_OR_RETURN(const DatasetSizes sizes, ReadDatasetSizes(job));
  SampleFacts facts = {
      .shape = sizes.sample_shape, .type = sizes.type, .train = sizes.train, .test = sizes.test};
  const std::string place = FormatOf(job.data()).place(job.data());
  if (!sizes.labels.shape.empty()) return Annotate(CheckLabels(facts, sizes.labels), place);
  TETHYS_ASSIGN_OR_RETURN(const Datasets datasets, LoadDatasetsUncached(job));
  const absl::Status tried = TrySamplesOf(*datasets.train);
  // Pictures of several sizes are no fault of theirs. A damaged picture is DataLoss.
  if (!tried.ok() && !absl::IsInvalidArgument(tried)) return tried;
  facts.one_size = tried.ok();
  facts.files = guessed.has_image_folder() || (guessed.has_tfrecord() && guessed.tfrecord().shape().empty());
  TETHYS_ASSIGN_OR_RETURN(const std::vector<int32_t> labels, ReadLabels(*datasets.train));
  const std::set<int32_t> different(labels.begin(), labels.end());
  facts.different_labels = static_cast<int64_t>(different.size());
  facts.smallest_label = *different.begin();
  facts.largest_label = *different.rbegin();
  facts.sorted = AreSorted(labels, facts.different_labels);
  TETHYS_RETURN_IF_ERROR(Annotate(CheckLabels(facts, sizes.labels), place));
  return facts;
}

absl::Status TrySamples(const proto::Data& data) {
  TETHYS_ASSIGN_OR_RETURN(const Datasets datasets, LoadDatasetsUncached(JobOf(data)));
  return TrySamplesOf(*datasets.train);
}

}  // namespace tethys
