#include "runtime/data/data_notes.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "runtime/data/byte_source.h"
#include "runtime/data/class_notes.h"
#include "runtime/data/label_rules.h"

namespace tethys {
namespace {

// The most labels that are read of a split: enough to find its classes, and few enough to read one by one.
constexpr int64_t kMostLabels = 4096;

// The labels of the samples [first, first + count), or of some of these samples, evenly spread. Labels that
// the loss ignores are left out, because they are no classes.
SplitLabels LabelsOf(const SampleSource& source, const LabelRules& rules, int64_t first, int64_t count) {
  const int64_t taken = std::min(count, kMostLabels);
  SplitLabels split = {.labels = {}, .all = taken == count};
  for (int64_t i = 0; i < taken; ++i) {
    int32_t label = 0;
    if (!source.Read(first + i * count / taken, nullptr, &label).ok()) return {};
    if (label < rules.classes || label != rules.ignored) split.labels.push_back(label);
  }
  return split;
}

std::shared_ptr<const SampleSource> OpenLabels(const DataHeader& header) {
  // Labels in a file on another machine are not read, because the read of each label would need a request.
  if (header.open_labels == nullptr || IsUrlPath(header.labels_name)) return nullptr;
  absl::StatusOr<std::shared_ptr<const SampleSource>> source = header.open_labels();
  return source.ok() ? *std::move(source) : nullptr;
}

// A note on arrays [3, 32, 32] in PyTorch's order, which are read as pictures of 3 x 32 pixels with 32
// channels.
std::string ChannelsFirstNote(const proto::Data& data, const DataHeader& header) {
  const Shape& shape = header.spec.shape;
  constexpr int64_t kFewestPixels = 16;  // The least number of pixels of a side.
  if (shape.size() != 3 || data.has_synthetic() || data.has_image_folder()) return "";
  const bool few = shape[0] == 1 || shape[0] == 3 || shape[0] == 4;
  const bool square = shape[1] == shape[2] && shape[1] > shape[0];
  const bool large = shape[0] >= 3 && shape[1] >= kFewestPixels && shape[2] >= kFewestPixels;
  if (!few || !(square || large)) return "";
  return absl::StrCat(header.values_name, ": samples ", ShapeText(shape), " are read as pictures of ",
                      shape[0], " x ", shape[1], " pixels with ", shape[2],
                      " channels; if the channels come first, as in PyTorch, move them behind the pixels: "
                      "numpy.moveaxis(array, 1, -1)");
}

}  // namespace

std::vector<std::string> DataNotes(const proto::Job& job, const DataHeader& train, int64_t used,
                                   const DataHeader* test) {
  std::vector<std::string> notes;
  const proto::Data& data = job.data();
  if (std::string note = ChannelsFirstNote(data, train); !note.empty()) notes.push_back(std::move(note));
  if (train.spec.labels.targets || !train.spec.labels.shape.empty()) return notes;
  const std::shared_ptr<const SampleSource> source = OpenLabels(train);
  if (source == nullptr || source->size() != train.samples) return notes;
  const LabelRules rules = LabelRulesOf(job);
  LabelsOfSplits splits;
  splits.train = LabelsOf(*source, rules, 0, used);
  const int64_t validation = data.validation_samples();
  if (const int64_t left = train.samples - validation - used; left > 0) {
    splits.left_out = LabelsOf(*source, rules, used, left);
  }
  if (validation > 0) splits.validation = LabelsOf(*source, rules, train.samples - validation, validation);
  if (test != nullptr) {
    if (const auto of_test = OpenLabels(*test); of_test != nullptr) {
      splits.test = LabelsOf(*of_test, rules, 0, of_test->size());
    }
  }
  const std::vector<std::string> more = ClassNotes(data, job.workers(), rules.classes, splits);
  notes.insert(notes.end(), more.begin(), more.end());
  return notes;
}

}  // namespace tethys
