#include "deploy/report/run_means.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/deploy/report/run_records.h"

namespace tethys {
namespace {

using testing::FailedRun;
using testing::OneRun;
using testing::WithCourse;

TEST(RunMeansTest, ValueIsMeanAndSampleDeviation) {
  const proto::ReportValue value = MeanOf({1, 2, 3, 4});
  EXPECT_EQ(value.count(), 4);
  EXPECT_DOUBLE_EQ(value.mean(), 2.5);
  EXPECT_DOUBLE_EQ(value.deviation(), std::sqrt(5.0 / 3));
  EXPECT_NEAR(value.half_width(), 3.182 * std::sqrt(5.0 / 3) / 2, 1e-9) << "t of three degrees of freedom";
  EXPECT_EQ(MeanOf({7.0}).deviation(), 0);
  EXPECT_EQ(MeanOf({0.1, 0.1, 0.1}).half_width(), 0) << "the mean is rounded, and differs from the values";
  EXPECT_EQ(MeanOf({}).count(), 0);
}

TEST(RunMeansTest, VariantWithoutSuccessHasNoNumbers) {
  const proto::ReportVariant means = MeansOver({{FailedRun(1, 0)}}, 1, absl::nullopt);
  EXPECT_EQ(means.failed(), 1);
  EXPECT_EQ(means.test_accuracy().count(), 0);
  EXPECT_FALSE(means.has_to_target());
}

TEST(RunMeansTest, TimeToTargetIsMeanOverRunsThatReachedTarget) {
  const std::vector<RunRecord> runs = {WithCourse(OneRun(0, 0, 0.9, 3), {0.7, 0.8, 0.9}),
                                       WithCourse(OneRun(0, 1, 0.9, 3), {0.8, 0.9, 0.9}),
                                       WithCourse(OneRun(0, 2, 0.7, 3), {0.6, 0.6, 0.7}), FailedRun(0, 3)};
  const Target target = TargetOf(runs, 0.8);
  ASSERT_TRUE(target.has_value() && target->given());
  const proto::TimeToTarget to_target = MeansOver(runs, 0, target).to_target();
  EXPECT_EQ(to_target.runs(), 3);
  EXPECT_EQ(to_target.reached(), 2);
  EXPECT_DOUBLE_EQ(to_target.seconds().mean(), 1.5);
  EXPECT_DOUBLE_EQ(to_target.epochs().mean(), 1.5);
  EXPECT_EQ(to_target.cost().count(), 0) << "no price";
}

TEST(TargetTest, ChosenTargetIsReachedByAllSuccessfulRuns) {
  std::vector<RunRecord> runs = {WithCourse(OneRun(0, 0, 0.9, 3), {0.7, 0.9}),
                                 WithCourse(OneRun(1, 0, 0.9, 3), {0.8123, 0.7}),
                                 WithCourse(FailedRun(1, 1), {0.1})};
  EXPECT_DOUBLE_EQ(TargetOf(runs, absl::nullopt)->accuracy(), 0.81);
  runs[1].summary.mutable_cost()->set_price_per_hour(7200);
  EXPECT_DOUBLE_EQ(MeansOver(runs, 1, TargetOf(runs, absl::nullopt)).to_target().cost().mean(), 2);
}

TEST(TargetTest, WithoutValidationThereIsNoTarget) {
  const RunRecord run = OneRun(0, 0, 0.9, 3);
  EXPECT_FALSE(TargetOf({&run, 1}, 0.8).has_value());
}

}  // namespace
}  // namespace tethys
