#include "runtime/data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/runtime/data/idx_files.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using testing::Gzip;
using ::testing::HasSubstr;
using testing::Idx;
using testing::IdxHeader;
using testing::IdxLabels;

class DatasetTest : public ::testing::Test {
 protected:
  // Expects that reading only the headers and reading all the data both fail, with all of `fragments` in the
  // message.
  void ExpectRefused(const std::vector<std::string>& fragments) {
    for (const absl::Status& status : {ReadDatasetSizes(job_).status(), LoadDatasets(job_).status()}) {
      EXPECT_FALSE(status.ok());
      for (const std::string& fragment : fragments) {
        EXPECT_THAT(std::string(status.message()), HasSubstr(fragment));
      }
    }
  }
  static int32_t LabelOf(const Dataset& dataset, int64_t index) {
    int32_t label = -1;
    EXPECT_TRUE(dataset.ReadLabels(index, &label).ok());
    return label;
  }
  static uint8_t FirstValue(const Dataset& dataset, int64_t index) {
    std::vector<uint8_t> values(dataset.sample_elements());
    EXPECT_TRUE(dataset.ReadValues(index, values.data()).ok());
    return values[0];
  }
  Datasets Load() {
    auto datasets = LoadDatasets(job_);
    EXPECT_TRUE(datasets.ok()) << datasets.status();
    return *std::move(datasets);
  }

  testing::TempDirectory directory_;
  proto::Job job_ = [this] {
    proto::Job job;
    *job.mutable_data() = testing::WriteIdxData(directory_, 20, 6);
    return job;
  }();
  proto::Data& data_ = *job_.mutable_data();
};

TEST_F(DatasetTest, SizesFromHeadersEqualTheSizesOfTheLoadedData) {
  data_.set_validation_samples(4);
  const auto sizes = ReadDatasetSizes(job_);
  ASSERT_TRUE(sizes.ok()) << sizes.status();
  const Datasets datasets = Load();
  EXPECT_EQ(sizes->train, 16);
  EXPECT_EQ(datasets.train->size(), 16);
  EXPECT_EQ(sizes->validation, 4);
  EXPECT_EQ(datasets.validation->size(), 4);
  EXPECT_EQ(sizes->test, 6);
  EXPECT_EQ(datasets.test->size(), 6);
  EXPECT_EQ(sizes->sample_shape, (Shape{2, 2}));
  EXPECT_EQ(datasets.train->sample_shape(), sizes->sample_shape);
}

TEST_F(DatasetTest, LastTrainingSamplesBecomeTheValidationSplit) {
  data_.set_validation_samples(4);
  const Datasets datasets = Load();
  EXPECT_EQ(FirstValue(*datasets.train, 15), 60);
  EXPECT_EQ(FirstValue(*datasets.validation, 0), 64);
  EXPECT_EQ(LabelOf(*datasets.validation, 0), 16 % 5);
}

TEST_F(DatasetTest, LimitSamplesKeepsTheFirstTrainingSamplesAndTheWholeValidationSplit) {
  data_.set_validation_samples(4);
  data_.set_limit_samples(10);
  const Datasets datasets = Load();
  EXPECT_EQ(datasets.train->size(), 10);
  EXPECT_EQ(FirstValue(*datasets.validation, 0), 64);
  EXPECT_EQ(ReadDatasetSizes(job_)->train, 10);
}

TEST_F(DatasetTest, WithoutTestFilesTheTestSplitIsAbsent) {
  data_ = testing::WriteIdxData(directory_, 20, 0);
  EXPECT_EQ(Load().test, nullptr);
  EXPECT_EQ(ReadDatasetSizes(job_)->test, 0);
}

TEST_F(DatasetTest, RefusesImagesAndLabelsOfDifferentCounts) {
  directory_.Write("train-labels", IdxLabels(19, 5));
  ExpectRefused({"train-images holds 20 samples", "train-labels 19 labels", "do not belong together"});
}

TEST_F(DatasetTest, RefusesAValidationSplitOfAllTrainingSamples) {
  data_.set_validation_samples(20);
  ExpectRefused({"data.validation_samples is 20", "holds 20 samples"});
}

TEST_F(DatasetTest, RefusesALimitAboveTheTrainingSplit) {
  data_.set_validation_samples(4);
  data_.set_limit_samples(17);
  ExpectRefused({"data.limit_samples is 17", "only 16 samples"});
}

TEST_F(DatasetTest, RefusesTestSamplesOfAnotherShapeThanTrainingSamples) {
  directory_.Write("test-images.gz", Gzip(Idx({6, 2, 3})));
  ExpectRefused({"test-images.gz are [2, 3]", "[2, 2]", "one shape"});
}

TEST_F(DatasetTest, RefusesALabelOutsideTheClasses) {
  data_.set_classes(4);
  const absl::Status status = LoadDatasets(job_).status();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("train-labels: label 4 of sample 4 is outside the 4 classes"));
}

TEST_F(DatasetTest, MeanAndDeviationGivenInTheJobAreUsedUnchanged) {
  data_.add_mean(0.5);
  data_.add_deviation(0.25);
  const auto scaling = ResolveScaling(data_, *Load().train);
  EXPECT_THAT(scaling->mean, ElementsAre(0.5f));
  EXPECT_THAT(scaling->deviation, ElementsAre(0.25f));
}

// Two images of 1 x 2 pixels in 3 channels: the first channel has the pixels 0 and 255, the second 51 and
// 102, the third 10, 20, 30, 40.
TEST_F(DatasetTest, ScalingOfEachChannelIsComputedFromThePixelsOfThatChannel) {
  directory_.Write("train-images",
                   IdxHeader({2, 1, 2, 3}) + std::string("\0\x33\x0a\xff\x66\x14\0\x33\x1e\xff\x66\x28", 12));
  directory_.Write("train-labels", IdxLabels(2, 5));
  data_.mutable_idx()->clear_test_images();
  data_.set_compute_standardisation(true);
  data_.set_per_channel(true);
  const auto scaling = ResolveScaling(data_, *Load().train);
  ASSERT_TRUE(scaling.ok()) << scaling.status();
  EXPECT_THAT(scaling->mean, ElementsAre(FloatEq(0.5f), FloatEq(0.3f), FloatEq(25 / 255.0f)));
  EXPECT_THAT(scaling->deviation,
              ElementsAre(FloatEq(0.5f), FloatEq(0.1f), FloatEq(static_cast<float>(std::sqrt(125.0) / 255))));
  data_.set_compute_standardisation(false);
  data_.set_per_channel(false);
  data_.add_mean(0.25);
  for (const float deviation : {1.0f, 2.0f, 3.0f}) data_.add_deviation(deviation);
  EXPECT_THAT(ResolveScaling(data_, *Load().train)->mean, ElementsAre(0.25f, 0.25f, 0.25f));
  data_.mutable_deviation()->RemoveLast();
  ExpectRefused({"data.deviation has 2 numbers", "[1, 2, 3]", "one per channel (3)"});
}

// The first feature's floats are so far from 0 that a deviation computed from the sum of their squares would
// be imprecise.
class FarFromZero final : public SampleSource {
 public:
  FarFromZero() : SampleSource({.shape = {1, 1, 2}, .type = ValueType::kFloat}, 4) {}
  absl::Status Read(int64_t index, uint8_t* values, int32_t*) const override {
    const float sample[] = {1e6f + 0.25f * static_cast<float>(index), index % 2 == 0 ? -3.0f : 5.0f};
    std::memcpy(values, sample, sizeof(sample));
    return absl::OkStatus();
  }
};

TEST_F(DatasetTest, MeanAndDeviationOfFloatsAreNotDividedBy255AndArePrecise) {
  const Dataset train(std::make_shared<FarFromZero>(), 0, 4);
  data_.set_compute_standardisation(true);
  data_.set_per_channel(true);
  const auto scaling = ResolveScaling(data_, train);
  ASSERT_TRUE(scaling.ok()) << scaling.status();
  EXPECT_EQ(scaling->type, ValueType::kFloat);
  EXPECT_THAT(scaling->mean, ElementsAre(1e6f + 0.375f, 1));
  EXPECT_THAT(scaling->deviation, ElementsAre(FloatEq(0.25f * std::sqrt(1.25f)), 4));
  data_.set_compute_standardisation(false);
  data_.set_per_channel(false);
  EXPECT_EQ(ResolveScaling(data_, train)->type, ValueType::kFloat);
}

TEST_F(DatasetTest, ComputedScalingUsesTheTrainingSplitOnly) {
  // The two training samples have the pixels 0 and 255. All pixels of the two validation samples are 255, so
  // they would change the mean.
  directory_.Write("train-images", IdxHeader({4, 1, 2}) + std::string("\0\xff\0\xff\xff\xff\xff\xff", 8));
  directory_.Write("train-labels", IdxLabels(4, 5));
  data_.mutable_idx()->clear_test_images();
  data_.set_validation_samples(2);
  data_.set_compute_standardisation(true);
  const auto scaling = ResolveScaling(data_, *Load().train);
  ASSERT_TRUE(scaling.ok()) << scaling.status();
  EXPECT_THAT(scaling->mean, ElementsAre(0.5f));
  EXPECT_THAT(scaling->deviation, ElementsAre(0.5f));
}

TEST_F(DatasetTest, LabelMapsAreReadAndCheckedLikeSingleLabels) {
  std::string maps(20 * 4, '\0');
  for (size_t i = 0; i < maps.size(); ++i) maps[i] = static_cast<char>(i % 5);
  directory_.Write("train-labels", IdxHeader({20, 2, 2}) + maps);
  ExpectRefused({"training and test data must have labels of one shape", "train-labels", "a map [2, 2]"});
  data_.mutable_idx()->clear_test_images();
  data_.mutable_idx()->clear_test_labels();
  EXPECT_EQ(ReadDatasetSizes(job_)->labels, (LabelFormat{.shape = {2, 2}}));
  maps[9] = '\xff';
  directory_.Write("train-labels", IdxHeader({20, 2, 2}) + maps);
  EXPECT_THAT(
      std::string(LoadDatasets(job_).status().message()),
      HasSubstr("label 255 of sample 2 is outside the 5 classes of data.classes (0 to 4); if the loss is to "
                "ignore this label, name the label in softmax_cross_entropy.ignore_label"));
  job_.mutable_model()->mutable_loss()->mutable_softmax_cross_entropy()->set_ignore_label(255);
  const Datasets datasets = Load();
  std::vector<int32_t> labels(4);
  ASSERT_TRUE(datasets.train->ReadLabels(2, labels.data()).ok());
  EXPECT_EQ(labels, (std::vector<int32_t>{3, 255, 0, 1}));
}

TEST_F(DatasetTest, TargetsInIdxFilesAreReadAsBigEndianFloats) {
  job_.mutable_model()->mutable_loss()->mutable_mean_squared_error();
  ExpectRefused({"train-labels", "holds unsigned bytes (type 8), expected 32-bit floats (type 13)"});
  data_.mutable_idx()->clear_test_images();
  data_.mutable_idx()->clear_test_labels();
  // The targets 1.5 and -2 for each sample.
  std::string targets;
  for (int i = 0; i < 20; ++i) targets += std::string("\x3f\xc0\0\0\xc0\0\0\0", 8);
  const std::string header = std::string("\0\0\x0d\2\0\0\0\x14\0\0\0\2", 12);
  directory_.Write("train-labels", header + targets);
  EXPECT_EQ(ReadDatasetSizes(job_)->labels, (LabelFormat{.shape = {2}, .targets = true}));
  std::vector<int32_t> bits(2);
  const Datasets datasets = Load();
  ASSERT_TRUE(datasets.train->ReadLabels(19, bits.data()).ok());
  float values[2];
  std::memcpy(values, bits.data(), sizeof(values));
  EXPECT_EQ(values[0], 1.5f);
  EXPECT_EQ(values[1], -2.0f);

  targets.replace(5 * 8, 4, std::string("\x7f\xc0\0\0", 4));  // The bits of NaN.
  directory_.Write("train-labels", header + targets);
  EXPECT_THAT(std::string(LoadDatasets(job_).status().message()), HasSubstr("a target of sample 5 is nan"));
  directory_.Write("train-labels", header + targets.substr(1));
  EXPECT_THAT(std::string(ReadDatasetSizes(job_).status().message()), HasSubstr("1 bytes of its values"));
}

TEST_F(DatasetTest, ValuesInIdxFilesMayBeBigEndianFloats) {
  std::string values;
  for (int i = 0; i < 20; ++i) values += std::string("\x3f\xc0\0\0\xc0\0\0\0", 8);  // The values 1.5 and -2.
  directory_.Write("train-images", IdxHeader({20, 1, 2}, 0x0D) + values);
  ExpectRefused({"[2, 2]", "[1, 2]"});
  data_.mutable_idx()->clear_test_images();
  data_.mutable_idx()->clear_test_labels();
  EXPECT_EQ(ReadDatasetSizes(job_)->type, ValueType::kFloat);
  float sample[2];
  ASSERT_TRUE(Load().train->ReadValues(19, reinterpret_cast<uint8_t*>(sample)).ok());
  EXPECT_THAT(sample, ElementsAre(1.5f, -2));
  values.replace(7 * 8 + 4, 4, std::string("\x7f\x80\0\0", 4));  // The bits of infinity.
  directory_.Write("train-images", IdxHeader({20, 1, 2}, 0x0D) + values);
  EXPECT_THAT(std::string(LoadDatasets(job_).status().message()),
              HasSubstr("train-images, sample 7: value 1 is inf"));
}

TEST_F(DatasetTest, TestSamplesOfAnotherTypeThanTrainingSamplesAreRefused) {
  directory_.Write("train-images", IdxHeader({20, 2, 2}, 0x0D) + std::string(20 * 4 * 4, '\0'));
  ExpectRefused({"test-images", "are bytes, samples of", "train-images are float32", "must have one type"});
}

TEST_F(DatasetTest, RefusesToComputeStandardisationIfAllPixelsAreEqual) {
  directory_.Write("train-images", IdxHeader({20, 2, 2}) + std::string(80, '\7'));
  data_.set_compute_standardisation(true);
  EXPECT_THAT(std::string(ResolveScaling(data_, *Load().train).status().message()), HasSubstr("pixels"));
}

TEST(FashionMnistTest, ComputedMeanAndDeviationOfFashionMnistEqualThePublishedValues) {
  const std::string directory = "/usr/share/datasets/fashion-mnist/";
  if (!FileExists(directory)) GTEST_SKIP() << "needs " << directory << " (dataset-fashion-mnist)";
  proto::Job job;
  proto::Data& data = *job.mutable_data();
  data.set_classes(10);
  data.set_compute_standardisation(true);
  data.mutable_idx()->set_train_images(directory + "train-images-idx3-ubyte.gz");
  data.mutable_idx()->set_train_labels(directory + "train-labels-idx1-ubyte.gz");
  const auto datasets = LoadDatasets(job);
  ASSERT_TRUE(datasets.ok()) << datasets.status();
  EXPECT_EQ(datasets->train->size(), 60000);
  const auto scaling = ResolveScaling(data, *datasets->train);
  EXPECT_NEAR(scaling->mean.at(0), 0.2860, 5e-5);
  EXPECT_NEAR(scaling->deviation.at(0), 0.3530, 5e-5);
}

}  // namespace
}  // namespace tethys
