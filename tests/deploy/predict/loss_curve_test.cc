#include "deploy/predict/loss_curve.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

namespace tethys {
namespace {

using Kind = SampleRatio::Kind;

std::vector<double> Planted(int epochs, const std::function<double(double)>& loss) {
  std::vector<double> curve;
  for (int epoch = 1; epoch <= epochs; ++epoch) curve.push_back(loss(epoch));
  return curve;
}

double Hyperbola(double epoch) { return 1 / (0.5 * epoch + 0.8) + 0.2; }
double Power(double epoch) { return 0.9 * std::pow(epoch, -0.7) + 0.25; }

TEST(SampleRatioTest, EqualCurvesNeedEqualSamples) {
  const std::vector<double> curve = Planted(4, Power);
  const SampleRatio ratio = SamplesFor(curve, curve);
  EXPECT_EQ(ratio.ratio, 1);
  EXPECT_EQ(ratio.kind, Kind::kExact);
  EXPECT_EQ(ratio.loss, curve.back());
}

TEST(SampleRatioTest, SlowerCurveNeedsMoreSamples) {
  // The first curve reaches 0.5 after four epochs, the reference halfway from its second epoch to its third.
  const std::vector<double> slow = {0.9, 0.7, 0.6, 0.5}, reference = {0.8, 0.6, 0.4, 0.3};
  const SampleRatio ratio = SamplesFor(slow, reference);
  EXPECT_EQ(ratio.loss, 0.5);
  EXPECT_DOUBLE_EQ(ratio.ratio, 4 / 2.5);
  EXPECT_EQ(ratio.kind, Kind::kExact);
  EXPECT_DOUBLE_EQ(SamplesFor(reference, slow).ratio, 2.5 / 4);
}

TEST(SampleRatioTest, LossReachedWithinTheFirstEpochGivesOnlyABoundOfTheRatio) {
  const std::vector<double> slow = {0.9, 0.7}, reference = {0.6, 0.5};
  EXPECT_EQ(SamplesFor(slow, reference).ratio, 2);
  EXPECT_EQ(SamplesFor(slow, reference).kind, Kind::kAtLeast);
  EXPECT_EQ(SamplesFor(reference, slow).ratio, 0.5);
  EXPECT_EQ(SamplesFor(reference, slow).kind, Kind::kAtMost);
}

TEST(SampleRatioTest, LossThatRisesAgainCountsAsItsLowestValue) {
  const SampleRatio ratio =
      SamplesFor(std::vector<double>{0.8, 0.9, 1.2}, std::vector<double>{0.9, 0.7, 0.5});
  EXPECT_EQ(ratio.loss, 0.8);
  EXPECT_DOUBLE_EQ(ratio.ratio, 1 / 1.5);
  EXPECT_EQ(ratio.kind, Kind::kExact);
}

TEST(ContinuedLossTest, RangeContainsThePlantedCurve) {
  for (const auto& loss : {Hyperbola, Power}) {
    const absl::optional<LossRange> range = ContinuedLoss(Planted(10, loss), 40);
    ASSERT_TRUE(range);
    EXPECT_LE(range->low, loss(40) * 1.01);
    EXPECT_GE(range->high, loss(40) * 0.99);
    EXPECT_LT(range->high - range->low, 0.3 * loss(40));
  }
}

TEST(ContinuedLossTest, DeviationOfTheLastFifthFromTheFitWidensTheRange) {
  std::vector<double> curve = Planted(10, Power);
  curve[9] *= 1.06;
  const absl::optional<LossRange> range = ContinuedLoss(curve, 12);
  ASSERT_TRUE(range);
  EXPECT_LT(range->low, Power(12) * 0.98);
  EXPECT_GT(range->high, Power(12) * 1.05);
}

TEST(ContinuedLossTest, CurveWithADropInItsLastFifthIsNotExtrapolated) {
  std::vector<double> curve = Planted(10, Power);
  curve[8] *= 0.8;
  curve[9] *= 0.8;
  EXPECT_FALSE(ContinuedLoss(curve, 40));
  // A curve that drops already in the last epoch to which the model is fitted is not continued either.
  curve = Planted(10, Power);
  for (size_t i = 7; i < curve.size(); ++i) curve[i] *= 0.6;
  EXPECT_FALSE(ContinuedLoss(curve, 40));
}

TEST(ContinuedLossTest, RisingLossIsNotExtrapolated) {
  EXPECT_FALSE(ContinuedLoss(std::vector<double>{0.5, 0.4, 0.5, 0.7, 0.9}, 10));
}

TEST(ContinuedLossTest, CurveOfFewerThanFiveEpochsIsNotExtrapolated) {
  EXPECT_TRUE(ContinuedLoss(Planted(5, Power), 20));
  EXPECT_FALSE(ContinuedLoss(Planted(4, Power), 20));
}

TEST(ContinuedLossTest, ConstantLossStaysConstant) {
  const absl::optional<LossRange> range = ContinuedLoss(std::vector<double>(6, 2.3), 100);
  ASSERT_TRUE(range);
  EXPECT_NEAR(range->low, 2.3, 1e-6);
  EXPECT_NEAR(range->high, 2.3, 1e-6);
}

TEST(ContinuedLossTest, LossNeverBecomesNegative) {
  // Without a bound, the same curve would reach -0.05.
  const absl::optional<LossRange> range =
      ContinuedLoss(Planted(6, [](double epoch) { return 3 / (epoch + 4) - 0.05; }), 1e6);
  ASSERT_TRUE(range);
  EXPECT_GE(range->low, 0);
}

}  // namespace
}  // namespace tethys
