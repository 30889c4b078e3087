#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/data/dataset.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;

struct Sample {
  std::vector<uint8_t> values;
  std::vector<int32_t> labels;
  bool operator==(const Sample&) const = default;
};

Sample SampleOf(const Dataset& data, int64_t index) {
  Sample sample = {.values = std::vector<uint8_t>(data.sample_elements()),
                   .labels = std::vector<int32_t>(data.label_format().elements())};
  EXPECT_EQ(data.Read(index, sample.values.data(), sample.labels.data()), absl::OkStatus());
  return sample;
}

proto::Job NoiseJob(int64_t train_samples) {
  proto::Job job;
  job.mutable_data()->set_classes(7);
  proto::Synthetic& synthetic = *job.mutable_data()->mutable_synthetic();
  for (const int64_t side : {9, 11, 3}) synthetic.mutable_noise()->add_shape(side);
  synthetic.set_train_samples(train_samples);
  synthetic.set_test_samples(10);
  return job;
}

proto::Job SectionsJob() {
  proto::Job job;
  job.mutable_data()->set_classes(4);
  proto::Synthetic& synthetic = *job.mutable_data()->mutable_synthetic();
  synthetic.mutable_sections()->set_height(48);
  synthetic.mutable_sections()->set_width(64);
  synthetic.set_train_samples(50);
  return job;
}

TEST(SyntheticSourceTest, SampleDependsOnItsIndexSplitAndSeedOnly) {
  for (proto::Job job : {NoiseJob(20), SectionsJob()}) {
    job.mutable_data()->mutable_synthetic()->set_test_samples(20);
    const Datasets once = LoadDatasets(job).value(), again = LoadDatasets(job).value();
    EXPECT_EQ(SampleOf(*once.train, 3), SampleOf(*again.train, 3));
    EXPECT_NE(SampleOf(*once.train, 3).values, SampleOf(*once.train, 4).values);
    EXPECT_NE(SampleOf(*once.train, 3).values, SampleOf(*once.test, 3).values);
    job.mutable_data()->mutable_synthetic()->set_seed(1);
    const Datasets others = LoadDatasets(job).value();
    EXPECT_NE(SampleOf(*once.train, 3).values, SampleOf(*others.train, 3).values);
  }
}

TEST(SyntheticSourceTest, ValuesAndLabelsReadSeparatelyEqualThoseReadTogether) {
  for (const proto::Job& job : {NoiseJob(20), SectionsJob()}) {
    const Datasets data = LoadDatasets(job).value();
    const Dataset& train = *data.train;
    const Sample both = SampleOf(train, 5);
    Sample alone = {.values = std::vector<uint8_t>(train.sample_elements()),
                    .labels = std::vector<int32_t>(train.label_format().elements())};
    EXPECT_EQ(train.ReadValues(5, alone.values.data()), absl::OkStatus());
    EXPECT_EQ(train.ReadLabels(5, alone.labels.data()), absl::OkStatus());
    EXPECT_EQ(both, alone);
  }
}

TEST(SyntheticSourceTest, NoiseHasUniformlyDistributedValuesAndClasses) {
  const Datasets data = LoadDatasets(NoiseJob(7000)).value();
  EXPECT_EQ(data.train->sample_shape(), (Shape{9, 11, 3}));
  std::vector<int64_t> of_class(7), of_value(256);
  for (int64_t i = 0; i < data.train->size(); ++i) {
    const Sample sample = SampleOf(*data.train, i);
    ++of_class.at(sample.labels[0]);
    for (const uint8_t value : sample.values) ++of_value[value];
  }
  // The tolerance is five standard deviations.
  for (const int64_t count : of_class) EXPECT_NEAR(count, 1000, 150);
  const int64_t expected = 7000 * 9 * 11 * 3 / 256;
  for (const int64_t count : of_value) EXPECT_NEAR(count, expected, 5 * 91);
}

TEST(SyntheticSourceTest, HigherClassesOfASyntheticSectionAreBrighter) {
  const Datasets data = LoadDatasets(SectionsJob()).value();
  const Dataset& train = *data.train;
  EXPECT_EQ(train.label_format().shape, (Shape{48, 64}));
  std::vector<double> sums(4), counts(4);
  int with_equal_columns = 0;
  for (int64_t i = 0; i < train.size(); ++i) {
    const Sample sample = SampleOf(train, i);
    bool equal = true;
    int changes = 0;
    for (int64_t pixel = 0; pixel < 48 * 64; ++pixel) {
      sums.at(sample.labels[pixel]) += sample.values[pixel];
      counts.at(sample.labels[pixel]) += 1;
      if (pixel >= 64) changes += sample.labels[pixel] != sample.labels[pixel - 64];
      equal &= sample.labels[pixel] == sample.labels[pixel - pixel % 64];
    }
    EXPECT_LT(changes, 8 * 64) << "layers, not noise";
    EXPECT_GT(changes, 64);
    with_equal_columns += equal;
  }
  EXPECT_EQ(with_equal_columns, 0) << "layers are folded and cut";
  for (int label = 0; label < 4; ++label) {
    EXPECT_GT(counts[label], 50 * 48 * 64 / 16);
    EXPECT_NEAR(sums[label] / counts[label], 31.5 + label * 191 / 3, 2);
  }
}

TEST(SyntheticSourceTest, HundredBillionSamplesNeedNoPreparation) {
  const int64_t many = 100'000'000'000;
  proto::Job job = NoiseJob(many);
  job.mutable_data()->set_validation_samples(many / 10);
  const Datasets data = LoadDatasets(job).value();
  EXPECT_EQ(data.train->size() + data.validation->size(), many);
  const Sample last = SampleOf(*data.validation, many / 10 - 1);
  // The sample 2^32 positions earlier must have other values.
  EXPECT_NE(last.values, SampleOf(*data.validation, many / 10 - 1 - (int64_t{1} << 32)).values);
}

TEST(SyntheticSourceTest, JobWithFloatTargetsIsRefused) {
  proto::Job job = NoiseJob(20);
  job.mutable_model()->mutable_loss()->mutable_mean_squared_error();
  job.mutable_data()->clear_classes();
  EXPECT_THAT(std::string(LoadDatasets(job).status().message()), HasSubstr("write softmax_cross_entropy {}"));
}

}  // namespace
}  // namespace tethys
