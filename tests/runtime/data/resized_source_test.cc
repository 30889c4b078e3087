// Tests that data.resize brings images, and the maps of their labels, to another size.
#include "runtime/data/resized_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/data/dataset.h"
#include "runtime/data/picture.h"
#include "tests/runtime/data/idx_files.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

proto::Data ResizeTo(proto::Data data, int height, int width) {
  data.mutable_resize()->set_height(height);
  data.mutable_resize()->set_width(width);
  return data;
}

TEST(ResizedSourceTest, ImagesOfIdxFilesAreResizedToTheSizeInTheJob) {
  const testing::TempDirectory directory;
  proto::Job job;
  *job.mutable_data() = ResizeTo(testing::WriteIdxData(directory, 6, 3), 2, 4);
  EXPECT_EQ(ReadDatasetSizes(job).value().sample_shape, (Shape{2, 4}));
  const Datasets data = LoadDatasets(job).value();
  EXPECT_EQ(data.train->size(), 6);
  EXPECT_EQ(data.test->sample_shape(), (Shape{2, 4}));
  uint8_t values[8];
  int32_t label = -1;
  ASSERT_TRUE(data.train->Read(1, values, &label).ok());  // The image is [[4, 5], [6, 7]].
  EXPECT_THAT(values, ElementsAre(4, 4, 5, 5, 6, 6, 7, 7));
  EXPECT_EQ(label, 1);
  EXPECT_TRUE(data.train->ReadValues(2, values).ok());
  EXPECT_TRUE(data.train->ReadLabels(3, &label).ok());
  EXPECT_EQ(label, 3);
}

TEST(ResizedSourceTest, FloatPixelsAreResizedWithoutRounding) {
  const float image[] = {0, 1, 3e38f, -3e38f};  // An image of shape [2, 2, 1].
  float resized[8];
  ResizePixels(image, {2, 2, 1}, {2, 4, 1}, resized);
  EXPECT_THAT(resized, ElementsAre(0, 0.25f, 0.75f, 1, 3e38f, 1.5e38f, -1.5e38f, -3e38f));
  const testing::TempDirectory directory;
  proto::Job job;
  *job.mutable_data() = ResizeTo(testing::WriteIdxData(directory, 6, 3), 1, 1);
  directory.Write("train-images", testing::IdxHeader({6, 1, 2}, 0x0D) + std::string(5 * 8, '\0') +
                                      std::string("\x3f\x80\0\0\x40\0\0\0", 8));
  job.mutable_data()->mutable_idx()->clear_test_images();
  job.mutable_data()->mutable_idx()->clear_test_labels();
  const Datasets data = LoadDatasets(job).value();
  EXPECT_EQ(data.train->spec(), (SampleSpec{.shape = {1, 1}, .type = ValueType::kFloat}));
  float value = 0;
  ASSERT_TRUE(data.train->ReadValues(5, reinterpret_cast<uint8_t*>(&value)).ok());
  EXPECT_EQ(value, 1.5f);  // The mean of 1 and 2.
}

TEST(ResizedSourceTest, LabelMapsTakeTheNearestLabelAndTargetsAreUnchanged) {
  const proto::Data data = ResizeTo({}, 3, 1);
  const SampleSpec map = {.shape = {2, 2, 3}, .labels = {.shape = {2, 2}}};
  EXPECT_TRUE(*ResizedSpec(data, map) == (SampleSpec{.shape = {3, 1, 3}, .labels = {.shape = {3, 1}}}));
  const SampleSpec targets = {.shape = {2, 2}, .labels = {.shape = {2, 2}, .targets = true}};
  EXPECT_TRUE(ResizedSpec(data, targets)->labels == targets.labels);
  EXPECT_TRUE(*ResizedSpec({}, map) == map);
  const int32_t labels[] = {1, 2, 3, 4};
  int32_t resized[6];
  ResizeLabels(labels, {2, 2}, {3, 2}, resized);
  EXPECT_THAT(resized, ElementsAre(1, 2, 3, 4, 3, 4));
  ResizeLabels(labels, {2, 2}, {1, 1}, resized);
  EXPECT_EQ(resized[0], 4);
}

TEST(ResizedSourceTest, SamplesThatAreNoImagesAreRefused) {
  for (const Shape& shape : {Shape{7}, Shape{2, 2, 2, 2}}) {
    EXPECT_THAT(std::string(ResizedSpec(ResizeTo({}, 3, 3), {.shape = shape}).status().message()),
                HasSubstr("data.resize is for images"));
  }
}

}  // namespace
}  // namespace tethys
