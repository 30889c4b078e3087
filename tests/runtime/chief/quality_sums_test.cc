#include "runtime/chief/quality_sums.h"

#include <gtest/gtest.h>

namespace tethys {
namespace {

proto::EvaluationDone Part(int64_t samples, int64_t labels, int64_t correct,
                           const std::vector<int64_t>& confusion) {
  proto::EvaluationDone part;
  part.set_samples(samples);
  part.set_labels(labels);
  part.set_correct(correct);
  part.set_loss_sum(static_cast<double>(samples) / 4);
  part.mutable_confusion()->Assign(confusion.begin(), confusion.end());
  return part;
}

TEST(QualitySums, IntersectionOverUnionIsComputedFromTheSumOfAllConfusionMatrices) {
  QualitySums sums;
  sums.Add(Part(2, 8, 5, {3, 1, 0, 0, 2, 0, 2, 0, 0}));
  sums.Add(Part(1, 4, 3, {1, 0, 0, 1, 2, 0, 0, 0, 0}));
  // The sum of the matrices is 4 1 0 / 1 4 0 / 2 0 0: class 0 is labelled 5 times and predicted 7 times, and
  // so on.
  const proto::Quality quality = sums.Quality();
  EXPECT_DOUBLE_EQ(quality.accuracy(), 8.0 / 12);
  EXPECT_DOUBLE_EQ(quality.loss(), 0.25);
  ASSERT_EQ(quality.iou_size(), 3);
  EXPECT_DOUBLE_EQ(quality.iou(0).iou(), 4.0 / 8);
  EXPECT_DOUBLE_EQ(quality.iou(1).iou(), 4.0 / 6);
  EXPECT_DOUBLE_EQ(quality.iou(2).iou(), 0);
  EXPECT_DOUBLE_EQ(quality.mean_iou(), (4.0 / 8 + 4.0 / 6) / 3);
}

TEST(QualitySums, ClassThatDoesNotOccurIsLeftOutOfTheMeanIou) {
  QualitySums sums;
  sums.Add(Part(1, 4, 4, {3, 0, 0, 0, 0, 0, 0, 0, 1}));
  const proto::Quality quality = sums.Quality();
  ASSERT_EQ(quality.iou_size(), 2);
  EXPECT_EQ(quality.iou(1).class_index(), 2);
  EXPECT_EQ(quality.mean_iou(), 1);
}

TEST(QualitySums, QualityOfSamplesWithoutLabelsHasALossButNoAccuracy) {
  QualitySums sums;
  sums.Add(Part(2, 0, 0, {}));
  const proto::Quality quality = sums.Quality();
  EXPECT_EQ(quality.loss(), 0.25);
  EXPECT_FALSE(quality.has_accuracy());
  EXPECT_FALSE(quality.has_mean_iou());
}

}  // namespace
}  // namespace tethys
