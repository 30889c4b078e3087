#include "runtime/data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/data/idx_files.h"

namespace tethys {
namespace {

using testing::Gzip;
using ::testing::HasSubstr;
using testing::Idx;
using testing::IdxHeader;
using testing::IdxLabels;

class DatasetTest : public ::testing::Test {
 protected:
  // Reading only the headers and reading all the data must both fail, with all of `fragments` in the message.
  void ExpectRefused(const std::vector<std::string>& fragments) {
    for (const absl::Status& status : {ReadDatasetSizes(data_).status(), LoadDatasets(data_).status()}) {
      EXPECT_FALSE(status.ok());
      for (const std::string& fragment : fragments) {
        EXPECT_THAT(std::string(status.message()), HasSubstr(fragment));
      }
    }
  }
  Datasets Load() {
    auto datasets = LoadDatasets(data_);
    EXPECT_TRUE(datasets.ok()) << datasets.status();
    return *std::move(datasets);
  }

  testing::TempDirectory directory_;
  proto::Data data_ = testing::WriteIdxData(directory_, 20, 6);
};

TEST_F(DatasetTest, SizesFromHeadersEqualThoseOfTheLoadedData) {
  data_.set_validation_samples(4);
  const auto sizes = ReadDatasetSizes(data_);
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
  EXPECT_EQ(datasets.train->sample(15)[0], 60);
  EXPECT_EQ(datasets.validation->sample(0)[0], 64);
  EXPECT_EQ(datasets.validation->label(0), 16 % 5);
  EXPECT_EQ(datasets.validation->sample(0), datasets.train->sample(0) + 16 * 4) << "one buffer serves both";
}

TEST_F(DatasetTest, LimitKeepsFirstTrainingSamplesAndTheValidationSplit) {
  data_.set_validation_samples(4);
  data_.set_limit_samples(10);
  const Datasets datasets = Load();
  EXPECT_EQ(datasets.train->size(), 10);
  EXPECT_EQ(datasets.validation->sample(0)[0], 64);
  EXPECT_EQ(ReadDatasetSizes(data_)->train, 10);
}

TEST_F(DatasetTest, WithoutTestFilesTheTestSplitIsAbsent) {
  data_ = testing::WriteIdxData(directory_, 20, 0);
  EXPECT_EQ(Load().test, nullptr);
  EXPECT_EQ(ReadDatasetSizes(data_)->test, 0);
}

TEST_F(DatasetTest, RefusesImagesAndLabelsOfDifferentCounts) {
  directory_.Write("train-labels", IdxLabels(19, 5));
  ExpectRefused({"train-images holds 20 images", "train-labels 19 labels", "do not belong together"});
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

TEST_F(DatasetTest, RefusesTestSamplesOfAnotherShape) {
  directory_.Write("test-images.gz", Gzip(Idx({6, 2, 3})));
  ExpectRefused({"test-images.gz are [2, 3]", "[2, 2]", "one shape"});
}

TEST_F(DatasetTest, RefusesALabelOutsideTheClasses) {
  data_.set_classes(4);
  const absl::Status status = LoadDatasets(data_).status();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("train-labels: label 4 of sample 4 is outside the 4 classes"));
}

TEST_F(DatasetTest, GivenScalingIsUsedAsItIs) {
  data_.set_mean(0.5);
  data_.set_deviation(0.25);
  const auto scaling = ResolveScaling(data_, *Load().train);
  EXPECT_EQ(scaling->mean, 0.5f);
  EXPECT_EQ(scaling->deviation, 0.25f);
}

TEST_F(DatasetTest, ComputedScalingUsesTheTrainingSplitOnly) {
  // The two training samples have the pixels 0 and 255 each. All pixels of the two validation samples are
  // 255, which would change the mean.
  directory_.Write("train-images", IdxHeader({4, 1, 2}) + std::string("\0\xff\0\xff\xff\xff\xff\xff", 8));
  directory_.Write("train-labels", IdxLabels(4, 5));
  data_.mutable_idx()->clear_test_images();
  data_.set_validation_samples(2);
  data_.set_compute_standardisation(true);
  const auto scaling = ResolveScaling(data_, *Load().train);
  ASSERT_TRUE(scaling.ok()) << scaling.status();
  EXPECT_EQ(scaling->mean, 0.5f);
  EXPECT_EQ(scaling->deviation, 0.5f);
}

TEST_F(DatasetTest, RefusesToStandardiseEqualPixels) {
  directory_.Write("train-images", IdxHeader({20, 2, 2}) + std::string(80, '\7'));
  data_.set_compute_standardisation(true);
  EXPECT_THAT(std::string(ResolveScaling(data_, *Load().train).status().message()), HasSubstr("pixels"));
}

TEST(FashionMnistTest, HasItsPublishedMeanAndDeviation) {
  const std::string directory = "/usr/share/datasets/fashion-mnist/";
  if (!FileExists(directory)) GTEST_SKIP() << "needs " << directory << " (dataset-fashion-mnist)";
  proto::Data data;
  data.set_classes(10);
  data.set_compute_standardisation(true);
  data.mutable_idx()->set_train_images(directory + "train-images-idx3-ubyte.gz");
  data.mutable_idx()->set_train_labels(directory + "train-labels-idx1-ubyte.gz");
  const auto datasets = LoadDatasets(data);
  ASSERT_TRUE(datasets.ok()) << datasets.status();
  EXPECT_EQ(datasets->train->size(), 60000);
  const auto scaling = ResolveScaling(data, *datasets->train);
  EXPECT_NEAR(scaling->mean, 0.2860, 5e-5);
  EXPECT_NEAR(scaling->deviation, 0.3530, 5e-5);
}

}  // namespace
}  // namespace tethys
