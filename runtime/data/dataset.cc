#include "runtime/data/dataset.h"

#include <algorithm>
#include <cmath>
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

absl::Status CheckSameShape(const Files& train, const Shape& train_shape, const Files& test,
                            const Shape& test_shape) {
  if (train_shape == test_shape) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("samples of ", test.images, " are ", ShapeText(test_shape),
                                                 ", of ", train.images, " ", ShapeText(train_shape),
                                                 ": training and test data must have one shape"));
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

absl::StatusOr<Shape> ReadPairShape(const Files& files) {
  TETHYS_ASSIGN_OR_RETURN(Shape images, ReadIdxShape(files.images, IdxKind::kImages));
  TETHYS_ASSIGN_OR_RETURN(const Shape labels, ReadIdxShape(files.labels, IdxKind::kLabels));
  TETHYS_RETURN_IF_ERROR(CheckPair(files, images, labels));
  return images;
}

absl::Status CheckLabels(const Files& files, const ByteBuffer& labels, int64_t classes) {
  for (int64_t i = 0; i < labels.size(); ++i) {
    if (labels.data()[i] < classes) continue;
    return absl::InvalidArgumentError(absl::StrCat(files.labels, ": label ", labels.data()[i], " of sample ",
                                                   i, " is outside the ", classes,
                                                   " classes of data.classes (0 to ", classes - 1, ")"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const SampleStore>> LoadPair(const Files& files, int64_t classes) {
  // Labels first: they are small, and a mistake in them is found before the large file is read.
  TETHYS_ASSIGN_OR_RETURN(IdxArray labels, ReadIdx(files.labels, IdxKind::kLabels));
  TETHYS_RETURN_IF_ERROR(CheckLabels(files, labels.values, classes));
  TETHYS_ASSIGN_OR_RETURN(IdxArray images, ReadIdx(files.images, IdxKind::kImages));
  TETHYS_RETURN_IF_ERROR(CheckPair(files, images.shape, labels.shape));
  auto store = std::make_shared<SampleStore>();
  store->sample_shape = SampleShape(images.shape);
  store->sample_elements = images.values.size() / images.shape[0];
  store->values = std::move(images.values);
  store->labels = std::move(labels.values);
  return store;
}

}  // namespace

Dataset::Dataset(std::shared_ptr<const SampleStore> store, int64_t first, int64_t count)
    : store_(std::move(store)),
      size_(count),
      values_(store_->values.data() + first * store_->sample_elements),
      labels_(store_->labels.data() + first) {
  TETHYS_CHECK(first >= 0 && count >= 0 && first + count <= store_->labels.size());
}

std::vector<std::string> DataFiles(const proto::Data& data) {
  std::vector<std::string> paths = {TrainFiles(data).images, TrainFiles(data).labels};
  if (HasTest(data)) paths.insert(paths.end(), {TestFiles(data).images, TestFiles(data).labels});
  return paths;
}

absl::StatusOr<DatasetSizes> ReadDatasetSizes(const proto::Data& data) {
  DatasetSizes sizes;
  TETHYS_ASSIGN_OR_RETURN(const Shape train, ReadPairShape(TrainFiles(data)));
  TETHYS_RETURN_IF_ERROR(Split(data, train[0], sizes));
  sizes.sample_shape = SampleShape(train);
  if (HasTest(data)) {
    TETHYS_ASSIGN_OR_RETURN(const Shape test, ReadPairShape(TestFiles(data)));
    TETHYS_RETURN_IF_ERROR(
        CheckSameShape(TrainFiles(data), sizes.sample_shape, TestFiles(data), SampleShape(test)));
    sizes.test = test[0];
  }
  return sizes;
}

absl::StatusOr<Datasets> LoadDatasets(const proto::Data& data) {
  Datasets datasets;
  TETHYS_ASSIGN_OR_RETURN(const auto train, LoadPair(TrainFiles(data), data.classes()));
  const int64_t count = train->labels.size();
  DatasetSizes sizes;
  TETHYS_RETURN_IF_ERROR(Split(data, count, sizes));
  datasets.train = std::make_shared<Dataset>(train, 0, sizes.train);
  if (sizes.validation > 0) {
    datasets.validation = std::make_shared<Dataset>(train, count - sizes.validation, sizes.validation);
  }
  if (HasTest(data)) {
    TETHYS_ASSIGN_OR_RETURN(const auto test, LoadPair(TestFiles(data), data.classes()));
    TETHYS_RETURN_IF_ERROR(
        CheckSameShape(TrainFiles(data), train->sample_shape, TestFiles(data), test->sample_shape));
    datasets.test = std::make_shared<Dataset>(test, 0, test->labels.size());
  }
  return datasets;
}

absl::StatusOr<std::shared_ptr<const Dataset>> LoadImages(const std::string& path) {
  TETHYS_ASSIGN_OR_RETURN(IdxArray images, ReadIdx(path, IdxKind::kImages));
  auto store = std::make_shared<SampleStore>();
  const int64_t count = images.shape[0];
  store->sample_shape = SampleShape(images.shape);
  store->sample_elements = images.values.size() / count;
  store->values = std::move(images.values);
  TETHYS_RETURN_IF_ERROR(store->labels.Resize(count));
  std::fill_n(store->labels.data(), count, uint8_t{0});
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
