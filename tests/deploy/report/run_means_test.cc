#include "deploy/report/run_means.h"

#include <gtest/gtest.h>

#include <cmath>

#include "deploy/report/report_value.h"
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
  // The quantile of t for three degrees of freedom is 3.182.
  const double half = 3.182 * std::sqrt(5.0 / 3) / 2 / 2.5;
  EXPECT_NEAR(value.low(), 2.5 * std::exp(-half), 1e-9);
  EXPECT_NEAR(value.high(), 2.5 * std::exp(half), 1e-9);
  EXPECT_EQ(MeanOf({7.0}).deviation(), 0);
  EXPECT_FALSE(MeanOf({0.1, 0.1, 0.1}).has_low()) << "the mean is rounded, and differs from the values";
  EXPECT_EQ(MeanOf({}).count(), 0);
}

TEST(RunMeansTest, MeansKeepValueAndSeedOfEachRunAndTheCpuUseOfOtherPrograms) {
  std::vector<RunRecord> runs = {OneRun(0, 0, 0.9, 3), OneRun(0, 1, 0.8, 4)};
  for (RunRecord& run : runs) {
    for (const auto& [process, percent] : {std::pair{"", 150.0}, {"worker 0", 50.0}}) {
      proto::ResourceSummary& use = *run.summary.add_resources();
      use.set_host("a");
      use.set_process(process);
      use.set_cores(2);
      use.mutable_cpu_percent()->set_mean(percent);
    }
  }
  const proto::ReportVariant means = MeansOver(runs, 0, absl::nullopt);
  EXPECT_EQ(means.test_accuracy().value(1), 0.8);
  EXPECT_EQ(means.test_accuracy().seed(1), 1);
  EXPECT_EQ(means.test_accuracy().scale(), proto::ReportValue::SHARE);
  EXPECT_DOUBLE_EQ(means.others_cpu().mean(), 0.5) << "of runs on several machines, by samples";
}

TEST(RunMeansTest, VariantWithoutSuccessfulRunHasNoMeans) {
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

TEST(RunMeansTest, ConfidenceIntervalsOfTheEpochsToTargetStayWithinTheEpochsOfTheJob) {
  std::vector<RunRecord> runs = {WithCourse(OneRun(0, 0, 0.9, 4), {0.8, 0.8, 0.8, 0.8}),
                                 WithCourse(OneRun(0, 1, 0.9, 4), {0.7, 0.7, 0.7, 0.8}),
                                 WithCourse(OneRun(0, 2, 0.9, 4), {0.7, 0.8, 0.8, 0.8})};
  for (RunRecord& run : runs) run.summary.mutable_cost()->set_price_per_hour(3600);
  const proto::TimeToTarget to_target = MeansOver(runs, 0, TargetOf(runs, 0.8)).to_target();
  for (const proto::ReportValue* value : {&to_target.seconds(), &to_target.epochs(), &to_target.cost()}) {
    EXPECT_DOUBLE_EQ(value->low(), 1);
    EXPECT_DOUBLE_EQ(value->high(), 4) << "the job has four epochs, of a second each";
    EXPECT_EQ(MeanText(*value), "2.3 (1.0 to 4.0)");
  }
  const Contrast ratio = RatioOf(to_target.seconds(), to_target.seconds());
  EXPECT_LE(ratio.interval->high, 4);
}

TEST(RunMeansTest, IntervalOfATargetAtTheEndKeepsTheErrorOfTheTrainingTime) {
  std::vector<RunRecord> runs;
  for (const double seconds : {9.0, 10.0, 12.0}) {
    runs.push_back(WithCourse(OneRun(0, static_cast<int>(runs.size()), 0.9, seconds), {0.8}));
    runs.back().epochs[0].set_seconds(seconds);
  }
  const proto::ReportVariant means = MeansOver(runs, 0, TargetOf(runs, 0.8));
  EXPECT_DOUBLE_EQ(means.to_target().seconds().high(), MeanOf({9.0, 10.0, 12.0}).high());
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
