// Tests the images and maps of labels that augmentation makes, and the jobs and samples that it refuses.
#include "runtime/data/augmentation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace tethys {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

constexpr int64_t kHeight = 5, kWidth = 7, kChannels = 3;
constexpr uint8_t kMean = 128;
constexpr int32_t kIgnored = 255;
using Pixels = std::vector<uint8_t>;

proto::Job JobOf(int pad, bool flip, int cutout) {
  proto::Job job;
  job.set_seed(11);
  proto::Augment& augment = *job.mutable_data()->mutable_augment();
  if (pad > 0) augment.mutable_random_crop()->set_pad(pad);
  augment.set_flip_horizontal(flip);
  if (cutout > 0) augment.mutable_cutout()->set_size(cutout);
  job.mutable_data()->set_classes(10);
  job.mutable_model()->mutable_loss()->mutable_softmax_cross_entropy()->set_ignore_label(kIgnored);
  return job;
}

SampleSpec ImagesWithMaps() {
  return {.shape = {kHeight, kWidth, kChannels}, .labels = {.shape = {kHeight, kWidth}}};
}

// A value that is different for each pixel and channel, and never 0 or kMean.
uint8_t Value(int64_t y, int64_t x, int64_t channel) {
  return static_cast<uint8_t>(1 + (y * kWidth + x) * kChannels + channel);
}

struct Sample {
  Pixels values;
  std::vector<int32_t> labels;
};

Sample Original() {
  Sample sample;
  for (int64_t y = 0; y < kHeight; ++y) {
    for (int64_t x = 0; x < kWidth; ++x) {
      sample.labels.push_back(static_cast<int32_t>(y * kWidth + x));
      for (int64_t c = 0; c < kChannels; ++c) sample.values.push_back(Value(y, x, c));
    }
  }
  return sample;
}

Sample Changed(const proto::Job& job, int64_t position) {
  Sample sample = Original();
  Augmentation(job, ImagesWithMaps(), {.mean = {kMean / 255.0f}})
      .Apply(position, sample.values.data(), sample.labels.data());
  return sample;
}

// Like Changed, but the values of the original are given to the augmentation as floats.
Sample ChangedFloats(const proto::Job& job, int64_t position) {
  Sample sample = Original();
  SampleSpec spec = ImagesWithMaps();
  spec.type = ValueType::kFloat;
  std::vector<float> values(sample.values.begin(), sample.values.end());
  Augmentation(job, spec, {.mean = {kMean}, .deviation = {1}, .type = ValueType::kFloat})
      .Apply(position, reinterpret_cast<uint8_t*>(values.data()), sample.labels.data());
  sample.values.assign(values.begin(), values.end());
  return sample;
}

// The original moved by (down, right) and then, if `mirrored`, mirrored; computed pixel by pixel.
Sample Expected(int64_t down, int64_t right, bool mirrored) {
  Sample sample;
  for (int64_t y = 0; y < kHeight; ++y) {
    for (int64_t column = 0; column < kWidth; ++column) {
      const int64_t from_y = y + down, from_x = (mirrored ? kWidth - 1 - column : column) + right;
      const bool inside = from_y >= 0 && from_y < kHeight && from_x >= 0 && from_x < kWidth;
      sample.labels.push_back(inside ? static_cast<int32_t>(from_y * kWidth + from_x) : kIgnored);
      for (int64_t c = 0; c < kChannels; ++c) sample.values.push_back(inside ? Value(from_y, from_x, c) : 0);
    }
  }
  return sample;
}

TEST(Augmentation, ImagesAndLabelMapsAreCroppedAlikeAtEveryOffsetAndMirrored) {
  const proto::Job job = JobOf(2, true, 0);
  std::map<Pixels, std::vector<int32_t>> possible;
  for (int64_t down = -2; down <= 2; ++down) {
    for (int64_t right = -2; right <= 2; ++right) {
      for (const bool mirrored : {false, true}) {
        Sample sample = Expected(down, right, mirrored);
        possible.emplace(std::move(sample.values), std::move(sample.labels));
      }
    }
  }
  ASSERT_EQ(possible.size(), 50);
  std::map<Pixels, int> seen;
  for (int64_t position = 0; position < 5000; ++position) {
    const Sample sample = Changed(job, position);
    const auto found = possible.find(sample.values);
    ASSERT_NE(found, possible.end()) << position;
    EXPECT_EQ(found->second, sample.labels) << position;
    ++seen[sample.values];
  }
  EXPECT_EQ(seen.size(), 50);
  // Each of the 50 possible changes is expected 100 times, with a standard deviation of 9.9.
  for (const auto& [pixels, count] : seen) EXPECT_NEAR(count, 100, 60);
}

TEST(Augmentation, CutoutSetsASquareToTheMeanAndLeavesLabelsUnchanged) {
  const proto::Job job = JobOf(0, false, 3);
  const Sample original = Original();
  std::set<int64_t> areas;
  for (int64_t position = 0; position < 500; ++position) {
    const Sample sample = Changed(job, position);
    EXPECT_EQ(sample.labels, original.labels);
    std::set<int64_t> rows, columns;
    int64_t area = 0;
    for (int64_t i = 0; i < kHeight * kWidth; ++i) {
      if (sample.values[i * kChannels] == original.values[i * kChannels]) continue;
      for (int64_t c = 0; c < kChannels; ++c) EXPECT_EQ(sample.values[i * kChannels + c], kMean);
      rows.insert(i / kWidth);
      columns.insert(i % kWidth);
      ++area;
    }
    EXPECT_EQ(area, static_cast<int64_t>(rows.size() * columns.size())) << position;
    areas.insert(area);
  }
  // The square lies in a corner, at an edge, or inside.
  EXPECT_THAT(areas, UnorderedElementsAreArray({4, 6, 9}));
}

TEST(Augmentation, FloatsAreAugmentedLikeBytes) {
  const proto::Job job = JobOf(2, true, 3);
  for (int64_t position = 0; position < 200; ++position) {
    const Sample bytes = Changed(job, position), floats = ChangedFloats(job, position);
    EXPECT_EQ(floats.values, bytes.values) << position;
    EXPECT_EQ(floats.labels, bytes.labels) << position;
  }
}

TEST(Augmentation, AugmentationDependsOnSeedAndPositionOnly) {
  proto::Job job = JobOf(2, true, 2);
  const Sample first = Changed(job, 1);
  EXPECT_EQ(first.values, Changed(job, 1).values);
  EXPECT_NE(first.values, Changed(job, 2).values);
  job.set_seed(12);
  EXPECT_NE(first.values, Changed(job, 1).values);
}

std::string RefusalOf(const proto::Job& job, const SampleSpec& spec) {
  return std::string(CheckAugmentation(job, spec).message());
}

TEST(Augmentation, SamplesThatAreNoImagesAreRefused) {
  EXPECT_THAT(RefusalOf(JobOf(1, false, 0), {.shape = {784}}),
              HasSubstr("changes images, but the samples are"));
  EXPECT_THAT(RefusalOf(JobOf(1, false, 0), {.shape = {2, 2, 2, 2}}), HasSubstr("remove augment"));
}

TEST(Augmentation, CropOrCutoutLargerThanTheImagesIsRefused) {
  EXPECT_EQ(RefusalOf(JobOf(2, true, 5), ImagesWithMaps()), "");
  EXPECT_THAT(RefusalOf(JobOf(3, false, 0), ImagesWithMaps()), HasSubstr("random_crop.pad is 3"));
  EXPECT_THAT(RefusalOf(JobOf(0, false, 6), ImagesWithMaps()), HasSubstr("cutout.size is 6"));
}

TEST(Augmentation, LabelMapsThatCannotBeCroppedWithTheImageAreRefused) {
  proto::Job job = JobOf(1, true, 0);
  SampleSpec other = ImagesWithMaps();
  other.labels.shape = {kHeight, kWidth + 1};
  EXPECT_THAT(RefusalOf(job, other),
              HasSubstr("the maps of labels are [5, 8], but the images are [5, 7, 3]"));
  job.mutable_model()->mutable_loss()->mutable_softmax_cross_entropy()->clear_ignore_label();
  EXPECT_THAT(RefusalOf(job, ImagesWithMaps()), HasSubstr("ignore_label"));
  job.mutable_data()->mutable_augment()->clear_random_crop();
  EXPECT_EQ(RefusalOf(job, ImagesWithMaps()), "");
  job.mutable_model()->mutable_loss()->mutable_mean_squared_error();
  EXPECT_THAT(RefusalOf(job, ImagesWithMaps()), HasSubstr("mean squared error"));
}

}  // namespace
}  // namespace tethys
