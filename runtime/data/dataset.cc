#include "runtime/data/dataset.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace tethys {
namespace {

// A pair of files as the job names them.
struct Files {
  const std::string& images;
  const std::string& labels;
};

Files TrainFiles(const proto::Data& data) { return {data.idx().train_images(), data.idx().train_labels()}; }
Files TestFiles(const proto::Data& data) { return {data.idx().test_images(), data.idx().test_labels()}; }
bool HasTest(const proto::Data& data) { return !data.idx().test_images().empty(); }

absl::Status CheckPair(const Files& files, const Shape& images, const Shape& labels) {
  if (images[0] == labels[0]) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(files.images, " holds ", images[0], " images but ",
                                                 files.labels, " ", labels[0],
                                                 " labels: the two files do not belong together"));
}

Shape SampleShape(const Shape& images) { return Shape(images.begin() + 1, images.end()); }

// How the labels of a job are read.
struct LabelRules {
  IdxKind kind = IdxKind::kLabels;
  int64_t classes = 0;
  int ignored = -1;

  bool targets() const { return kind == IdxKind::kTargets; }
  LabelFormat Format(const Shape& labels) const {
    return {.shape = SampleShape(labels), .targets = targets()};
  }
};

LabelRules RulesOf(const proto::Job& job) {
  if (job.model().loss().has_mean_squared_error()) return {.kind = IdxKind::kTargets};
  const proto::SoftmaxCrossEntropy& loss = job.model().loss().softmax_cross_entropy();
  return {.classes = job.data().classes(), .ignored = loss.has_ignore_label() ? loss.ignore_label() : -1};
}

absl::Status CheckSameShape(const Files& train, const Shape& train_shape, const Files& test,
                            const Shape& test_shape) {
  if (train_shape == test_shape) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("samples of ", test.images, " are ", ShapeText(test_shape),
                                                 ", of ", train.images, " ", ShapeText(train_shape),
                                                 ": training and test data must have one shape"));
}

absl::Status CheckSameLabels(const Files& train, const LabelFormat& train_labels, const Files& test,
                             const LabelFormat& test_labels) {
  if (train_labels == test_labels) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the labels of ", test.labels, " are ", LabelText(test_labels), ", of ", train.labels, " ",
                   LabelText(train_labels), ": training and test data must have one shape"));
}

// Computes the sizes of the training and validation splits of `count` samples.
absl::Status Split(const proto::Data& data, int64_t count, DatasetSizes& sizes) {
  sizes.validation = data.validation_samples();
  if (sizes.validation < 0 || sizes.validation >= count) {
    return absl::InvalidArgumentError(absl::StrCat("data.validation_samples is ", sizes.validation, ", but ",
                                                   data.idx().train_images(), " holds ", count,
                                                   " samples: leave at least one for training"));
  }
  sizes.train = count - sizes.validation;
  const int64_t limit = data.limit_samples();
  if (limit < 0 || limit > sizes.train) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.limit_samples is ", limit, ", but only ", sizes.train,
                     " samples are left for training: lower it, or remove it to use all"));
  }
  if (limit > 0) sizes.train = limit;
  return absl::OkStatus();
}

struct PairShapes {
  Shape images;
  LabelFormat labels;
};

absl::StatusOr<PairShapes> ReadPairShapes(const Files& files, const LabelRules& rules) {
  TETHYS_ASSIGN_OR_RETURN(Shape images, ReadIdxShape(files.images, IdxKind::kImages));
  TETHYS_ASSIGN_OR_RETURN(const Shape labels, ReadIdxShape(files.labels, rules.kind));
  TETHYS_RETURN_IF_ERROR(CheckPair(files, images, labels));
  return PairShapes{.images = std::move(images), .labels = rules.Format(labels)};
}

absl::Status CheckClasses(const Files& files, const IdxArray& labels, const LabelRules& rules) {
  const int64_t each = labels.values.size() / labels.shape[0];
  for (int64_t i = 0; i < labels.values.size(); ++i) {
    const int label = labels.values.data()[i];
    if (label < rules.classes || label == rules.ignored) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        files.labels, ": label ", label, " of sample ", i / each, " is outside the ", rules.classes,
        " classes of data.classes (0 to ", rules.classes - 1,
        each > 1 ? "); labels that count for nothing are named by softmax_cross_entropy.ignore_label" : ")"));
  }
  return absl::OkStatus();
}

absl::Status CheckTargets(const Files& files, const IdxArray& labels) {
  const auto* values = reinterpret_cast<const float*>(labels.values.data());
  const int64_t count = labels.values.size() / static_cast<int64_t>(sizeof(float));
  const float* const bad = std::find_if(values, values + count, [](float v) { return !std::isfinite(v); });
  if (bad == values + count) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(files.labels, ": a target of sample ",
                                                 (bad - values) / (count / labels.shape[0]), " is ", *bad,
                                                 ": targets must be finite"));
}

absl::StatusOr<std::shared_ptr<const SampleStore>> LoadPair(const Files& files, const LabelRules& rules) {
  // Labels first: they are small, and a mistake in them is found before the large file is read.
  TETHYS_ASSIGN_OR_RETURN(IdxArray labels, ReadIdx(files.labels, rules.kind));
  TETHYS_RETURN_IF_ERROR(rules.targets() ? CheckTargets(files, labels) : CheckClasses(files, labels, rules));
  TETHYS_ASSIGN_OR_RETURN(IdxArray images, ReadIdx(files.images, IdxKind::kImages));
  TETHYS_RETURN_IF_ERROR(CheckPair(files, images.shape, labels.shape));
  auto store = std::make_shared<SampleStore>();
  store->sample_shape = SampleShape(images.shape);
  store->sample_elements = images.values.size() / images.shape[0];
  store->values = std::move(images.values);
  store->label_format = rules.Format(labels.shape);
  store->labels = std::move(labels.values);
  return store;
}

// Bytes of the labels of a sample.
int64_t LabelBytes(const SampleStore& store) {
  const int64_t each = store.label_format.targets ? sizeof(float) : 1;
  return store.label_format.elements() * each;
}

}  // namespace

Dataset::Dataset(std::shared_ptr<const SampleStore> store, int64_t first, int64_t count)
    : store_(std::move(store)),
      size_(count),
      label_elements_(store_->label_format.elements()),
      values_(store_->values.data() + first * store_->sample_elements),
      labels_(store_->labels.data() + first * LabelBytes(*store_)) {
  TETHYS_CHECK(first >= 0 && count >= 0 && (first + count) * LabelBytes(*store_) <= store_->labels.size());
}

void Dataset::CopyLabels(int64_t index, int32_t* labels) const {
  if (label_format().targets) {
    std::memcpy(labels, labels_ + index * LabelBytes(*store_), LabelBytes(*store_));
    return;
  }
  std::copy_n(labels_ + index * label_elements_, label_elements_, labels);
}

std::vector<std::string> DataFiles(const proto::Data& data) {
  std::vector<std::string> paths = {TrainFiles(data).images, TrainFiles(data).labels};
  if (HasTest(data)) paths.insert(paths.end(), {TestFiles(data).images, TestFiles(data).labels});
  return paths;
}

absl::StatusOr<DatasetSizes> ReadDatasetSizes(const proto::Job& job) {
  const proto::Data& data = job.data();
  const LabelRules rules = RulesOf(job);
  DatasetSizes sizes;
  TETHYS_ASSIGN_OR_RETURN(const PairShapes train, ReadPairShapes(TrainFiles(data), rules));
  TETHYS_RETURN_IF_ERROR(Split(data, train.images[0], sizes));
  sizes.sample_shape = SampleShape(train.images);
  sizes.labels = train.labels;
  if (HasTest(data)) {
    TETHYS_ASSIGN_OR_RETURN(const PairShapes test, ReadPairShapes(TestFiles(data), rules));
    TETHYS_RETURN_IF_ERROR(
        CheckSameShape(TrainFiles(data), sizes.sample_shape, TestFiles(data), SampleShape(test.images)));
    TETHYS_RETURN_IF_ERROR(CheckSameLabels(TrainFiles(data), sizes.labels, TestFiles(data), test.labels));
    sizes.test = test.images[0];
  }
  return sizes;
}

absl::StatusOr<Datasets> LoadDatasets(const proto::Job& job) {
  const proto::Data& data = job.data();
  const LabelRules rules = RulesOf(job);
  Datasets datasets;
  TETHYS_ASSIGN_OR_RETURN(const auto train, LoadPair(TrainFiles(data), rules));
  const int64_t count = train->labels.size() / LabelBytes(*train);
  DatasetSizes sizes;
  TETHYS_RETURN_IF_ERROR(Split(data, count, sizes));
  datasets.train = std::make_shared<Dataset>(train, 0, sizes.train);
  if (sizes.validation > 0) {
    datasets.validation = std::make_shared<Dataset>(train, count - sizes.validation, sizes.validation);
  }
  if (HasTest(data)) {
    TETHYS_ASSIGN_OR_RETURN(const auto test, LoadPair(TestFiles(data), rules));
    TETHYS_RETURN_IF_ERROR(
        CheckSameShape(TrainFiles(data), train->sample_shape, TestFiles(data), test->sample_shape));
    TETHYS_RETURN_IF_ERROR(
        CheckSameLabels(TrainFiles(data), train->label_format, TestFiles(data), test->label_format));
    datasets.test = std::make_shared<Dataset>(test, 0, test->labels.size() / LabelBytes(*test));
  }
  return datasets;
}

absl::StatusOr<std::shared_ptr<const Dataset>> LoadImages(const std::string& path,
                                                          const LabelFormat& labels) {
  TETHYS_ASSIGN_OR_RETURN(IdxArray images, ReadIdx(path, IdxKind::kImages));
  auto store = std::make_shared<SampleStore>();
  const int64_t count = images.shape[0];
  store->sample_shape = SampleShape(images.shape);
  store->sample_elements = images.values.size() / count;
  store->values = std::move(images.values);
  store->label_format = labels;
  TETHYS_RETURN_IF_ERROR(store->labels.Resize(count * LabelBytes(*store)));
  std::fill_n(store->labels.data(), store->labels.size(), uint8_t{0});
  return std::make_shared<const Dataset>(std::move(store), 0, count);
}

absl::StatusOr<InputScaling> ResolveScaling(const proto::Data& data, const Dataset& train) {
  if (!data.compute_standardisation()) {
    return InputScaling{data.mean(), data.deviation() == 0 ? 1.0f : data.deviation()};
  }
  uint64_t sum = 0, sum_of_squares = 0;
  for (int64_t i = 0; i < train.size(); ++i) {
    const uint8_t* sample = train.sample(i);
    for (int64_t j = 0; j < train.sample_elements(); ++j) {
      sum += sample[j];
      sum_of_squares += uint64_t{sample[j]} * sample[j];
    }
  }
  const auto count = static_cast<double>(train.size() * train.sample_elements());
  const double mean = static_cast<double>(sum) / count;
  const double variance = static_cast<double>(sum_of_squares) / count - mean * mean;
  if (!(variance > 0)) {
    return absl::InvalidArgumentError(absl::StrCat(data.idx().train_images(),
                                                   ": all pixels of the training split are equal, so they "
                                                   "cannot be standardised: check the file, or set "
                                                   "data.compute_standardisation to false"));
  }
  return InputScaling{static_cast<float>(mean / 255), static_cast<float>(std::sqrt(variance) / 255)};
}

}  // namespace tethys
