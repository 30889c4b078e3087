#include "deploy/report/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_join.h"
#include "deploy/report/findings.h"
#include "deploy/report/report_value.h"
#include "tests/deploy/report/report_values.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Lt;
using ::testing::Not;
using ::testing::StartsWith;

class VerdictTest : public ::testing::Test {
 protected:
  proto::ReportVariant& Add(const std::string& strategy, proto::ReportValue seconds,
                            proto::ReportValue accuracy) {
    proto::ReportVariant& variant = *report_.add_variant();
    variant.set_name(strategy);
    variant.set_strategy(strategy);
    variant.set_runs(seconds.count());
    *variant.mutable_seconds() = seconds;
    *variant.mutable_test_accuracy() = accuracy;
    return variant;
  }
  std::string Text() const { return absl::StrJoin(Verdict(report_, FindingsOf(report_)), "\n"); }

  proto::Report report_;
};

TEST(ReportValueTest, IntervalOfAQuotientIsComputedFromLogarithms) {
  const Contrast ratio = RatioOf(Value(4, 20, 2), Value(4, 10, 0));
  EXPECT_DOUBLE_EQ(ratio.value, 2);
  const double half = 3.182 * 0.05;  // The quantile of t times the relative error, 2 / sqrt(4) / 20.
  EXPECT_NEAR(ratio.interval->low, 2 * std::exp(-half), 1e-12);
  EXPECT_NEAR(ratio.interval->high, 2 * std::exp(half), 1e-12);
  EXPECT_GT(RatioOf(Value(3, 10, 9), Value(3, 11, 9)).interval->low, 0) << "however wide it is";
  EXPECT_FALSE(RatioOf(Value(1, 20), Value(4, 10, 1)).interval.has_value());
}

TEST(ReportValueTest, IntervalsStayWithinThePossibleValues) {
  const Interval time = *IntervalOf(Value(3, 3.3, 3));
  EXPECT_GT(time.low, 0);
  const Interval accuracy = *IntervalOf(Share(3, 0.98, 0.05));
  EXPECT_THAT(accuracy.high, AllOf(Gt(0.98), Lt(1)));
  EXPECT_FALSE(IntervalOf(Value(2, 3, 1)).has_value()) << "an interval of two runs says nothing";
  EXPECT_EQ(MeanText(Value(3, 3.3, 3)), "3.3 (0.3 to 31.6)");
  EXPECT_EQ(MeanText(Value(3, 10, 0.1)), "10.00 ± 0.25");
  EXPECT_EQ(MeanText(Value(3, 54765, 2000)), "54,765 ± 4,975");
  EXPECT_EQ(MeanText(Value(2, 36, 7)), "36");
}

TEST(ReportValueTest, DifferenceIsTheSameInBothDirections) {
  EXPECT_EQ(DifferenceOf(Value(3, 10.5, 1), Value(3, 10, 1)), Difference::kNoise);
  EXPECT_EQ(DifferenceOf(Value(3, 10, 1), Value(3, 10.5, 1)), Difference::kNoise);
  EXPECT_EQ(DifferenceOf(Value(3, 20, 1), Value(3, 10, 1)), Difference::kShown);
  EXPECT_EQ(DifferenceOf(Value(3, 10, 1), Value(3, 20, 1)), Difference::kShown);
  EXPECT_EQ(DifferenceOf(Value(1, 10), Value(3, 20, 1)), Difference::kUnknown);
}

TEST(ReportValueTest, RunsWithTheSameSeedsArePaired) {
  const auto shares = [](std::vector<double> values) { return OfRuns(values, proto::ReportValue::SHARE); };
  const proto::ReportValue spread = shares({0.80, 0.84, 0.88});
  const Contrast equal = PointsOf(spread, spread);
  EXPECT_EQ(equal.interval->low, 0);
  EXPECT_EQ(equal.interval->high, 0);
  EXPECT_EQ(equal.difference, Difference::kNoise);
  const proto::ReportValue higher = shares({0.811, 0.85, 0.889});
  EXPECT_EQ(DifferenceOf(spread, higher), Difference::kShown) << "each run is better by a point";
  EXPECT_EQ(DifferenceOf(shares({0.85, 0.87}), shares({0.86, 0.88})), Difference::kNoise)
      << "on a hundred samples, two differences are easily equal";
  proto::ReportValue other_seeds = higher;
  other_seeds.set_seed(0, 7);
  EXPECT_EQ(DifferenceOf(spread, other_seeds), Difference::kNoise);
  const Contrast ratio = RatioOf(OfRuns({1, 2, 3}), OfRuns({2, 4, 6}));
  EXPECT_NEAR(ratio.interval->high, 0.5, 1e-9) << "half as long with each seed";
}

TEST(ReportValueTest, LongTimesAreWrittenInWholeSeconds) { EXPECT_EQ(MeanText(Value(1, 4321.6)), "4,322"); }

TEST_F(VerdictTest, FastestVariantIsNamedWithItsLead) {
  Add("mirrored", Value(3, 10, 0.1), Value(3, 0.87, 0.001));
  Add("ps", Value(3, 17, 0.2), Value(3, 0.8705, 0.001));
  EXPECT_THAT(
      Text(),
      HasSubstr(
          "\nFastest here: mirrored trained in 10.00 ± 0.25 s, 1.70 times (1.64 to 1.77) as fast as ps"));
  EXPECT_THAT(Text(), HasSubstr("No difference in test accuracy is shown"));
}

TEST_F(VerdictTest, SpeedDifferenceWithinNoiseIsNotReportedAsADifference) {
  Add("mirrored", Value(3, 10, 1), Value(3, 0.87, 0.001));
  Add("ps", Value(3, 10.5, 1), Value(3, 0.90, 0.001));
  EXPECT_THAT(Text(), HasSubstr("\nNo difference in speed is shown"));
  EXPECT_THAT(Text(), HasSubstr("Test accuracy of mirrored is lower: 87.00 ± 0.25 % against 90.00 ± 0.25 %, "
                                "difference -3.00 ± 0.35 points."));
}

TEST_F(VerdictTest, TwoRunsShowOnlyDifferencesFarBeyondTheirScatter) {
  Add("mirrored", Value(2, 10, 0.1), Value(2, 0.87, 0.001));
  Add("ps", Value(2, 10.5, 0.1), Value(2, 0.875, 0.001));
  // The difference, 0.5 s, is five times its error, which is not enough with two runs each.
  EXPECT_THAT(Text(), HasSubstr("\nNo difference in speed is shown"));
  EXPECT_THAT(Text(), HasSubstr("in the same order: 87.00 % against 87.50 %, over two runs."));
}

TEST_F(VerdictTest, PairedRunsOfEqualAccuracyShowNoDifference) {
  const proto::ReportValue accuracy = OfRuns({0.80, 0.84, 0.88}, proto::ReportValue::SHARE);
  Add("mirrored", Value(3, 10, 0.1), accuracy);
  Add("ps_sync", Value(3, 20, 0.1), accuracy);
  EXPECT_THAT(Text(), HasSubstr(", difference 0.00 ± 0.00 points.\n"));
  EXPECT_THAT(Text(), HasSubstr("with no measurable difference in accuracy"));
}

TEST_F(VerdictTest, OnlyAVariantShownFasterThanAllIsCalledFastest) {
  Add("mirrored", Value(3, 10, 0.1), Value(3, 0.87, 0.001));
  Add("mirrored", Value(3, 10.1, 0.1), Value(3, 0.87, 0.001));
  Add("ps", Value(3, 17, 0.2), Value(3, 0.87, 0.001));
  EXPECT_THAT(Text(), AllOf(HasSubstr("1.70 times (1.64 to 1.77) as fast as ps"), Not(HasSubstr("Fastest"))));
}

TEST_F(VerdictTest, CheapestIsNamedOnlyIfItIsShownToCostLess) {
  for (const double cost : {2.15, 2.57, 3.12}) {
    *Add("mirrored", Value(3, 10, 0.1), Value(3, 0.87, 0.001)).mutable_cost() = Value(3, cost, 0.6);
  }
  for (proto::ReportVariant& variant : *report_.mutable_variant()) {
    variant.set_name(std::string(1, static_cast<char>('p' + (&variant - report_.mutable_variant(0)))));
  }
  EXPECT_THAT(Text(),
              AllOf(HasSubstr("No difference in cost is shown between "), Not(HasSubstr("Cheapest"))));
  for (proto::ReportVariant& variant : *report_.mutable_variant())
    variant.mutable_cost()->set_deviation(0.01);
  EXPECT_THAT(Text(), HasSubstr("Cheapest: p, at 2.150 ± 0.025 a run, start-up included, in the currency"));
}

TEST_F(VerdictTest, NumbersOfSamplesNormalisedTogetherAreStatedIfVariantsDiffer) {
  proto::ReportVariant& local = Add("local", Value(3, 10, 0.1), Value(3, 0.80, 0.001));
  proto::ReportVariant& mirrored = Add("mirrored", Value(3, 20, 0.1), Value(3, 0.61, 0.001));
  local.set_normalised_samples(16);
  mirrored.set_normalised_samples(16);
  EXPECT_THAT(Text(), Not(HasSubstr("ormalis")));
  mirrored.set_normalised_samples(2);
  EXPECT_THAT(Text(),
              HasSubstr("are normalised together: 16 with local and 2 with mirrored. The variants thus"));
}

TEST_F(VerdictTest, MostAccurateVariantIsNamedIfItIsNotTheFastest) {
  Add("mirrored", Value(3, 10, 0.1), Value(3, 0.87, 0.001));
  Add("ps", Value(3, 17, 0.2), Value(3, 0.89, 0.001));
  EXPECT_THAT(Text(), HasSubstr("Most accurate of all: ps, 89.00 ± 0.25 % in 17.00 ± 0.50 s."));
}

// Records that seconds.count() runs reached the target, and that `missed` more runs did not.
void SetTarget(proto::ReportVariant& variant, proto::ReportValue seconds, int missed = 0) {
  variant.mutable_to_target()->set_runs(seconds.count() + missed);
  variant.mutable_to_target()->set_reached(seconds.count());
  *variant.mutable_to_target()->mutable_seconds() = seconds;
  *variant.mutable_to_target()->mutable_epochs() = Value(seconds.count(), 2);
}

class TargetVerdictTest : public VerdictTest {
 protected:
  TargetVerdictTest() {
    report_.mutable_target()->set_accuracy(0.85);
    report_.mutable_target()->set_given(true);
    Add("mirrored", Value(3, 10, 0.1), Value(3, 0.87, 0.001));
    Add("ps", Value(3, 13, 0.1), Value(3, 0.87, 0.001));
    *report_.mutable_variant(0)->mutable_samples_per_second() = Value(3, 1300);
    *report_.mutable_variant(1)->mutable_samples_per_second() = Value(3, 1000);
  }
  void SetTargets(proto::ReportValue mirrored, proto::ReportValue ps, int ps_missed = 0) {
    SetTarget(*report_.mutable_variant(0), mirrored);
    SetTarget(*report_.mutable_variant(1), ps, ps_missed);
  }
};

TEST_F(TargetVerdictTest, FastestVariantThatIsNotFirstAtTheTarget_IsNoted) {
  SetTargets(Value(3, 6, 0.1), Value(3, 4, 0.1));
  EXPECT_THAT(
      Text(),
      HasSubstr("But ps is first to reach 85 % validation accuracy: in 4.00 ± 0.25 s, against 6.00 ± "
                "0.25 s for mirrored, which uses 1.30 times (1.30 to 1.30) as many samples a second."));
}

TEST_F(TargetVerdictTest, FastestVariantThatIsAlsoFirstAtTheTarget_IsNoted) {
  SetTargets(Value(3, 4, 0.1), Value(3, 6, 0.1));
  EXPECT_THAT(Text(), HasSubstr("\nMirrored is also first to reach 85 % validation accuracy: in 4"));
  EXPECT_THAT(Text(), Not(HasSubstr("But")));
}

TEST_F(TargetVerdictTest, TimeToTargetDifferenceWithinNoiseIsNotReportedAsADifference) {
  SetTargets(Value(3, 4.1, 0.5), Value(3, 4, 0.5));
  EXPECT_THAT(Text(), HasSubstr("No difference is shown in the time to 85 %"));
}

TEST_F(TargetVerdictTest, VariantWithMissedTargetIsNamedAndNotFirst) {
  SetTargets(Value(3, 6, 0.1), Value(2, 1, 0.1), 1);
  EXPECT_THAT(Text(), HasSubstr("\nMirrored reached 85 % validation accuracy in 6.00 ± 0.25 s. The target "
                                "was not reached by 1 of 3 runs of ps."));
  SetTargets(Value(0, 0), Value(0, 0), 3);
  EXPECT_THAT(Text(), HasSubstr("The target was not reached by 3 of 3 runs of ps."));
}

TEST_F(TargetVerdictTest, TargetReachedInFirstEpochSuggestsAHigherTarget) {
  SetTargets(Value(3, 4, 0.1), Value(3, 6, 0.1));
  for (proto::ReportVariant& variant : *report_.mutable_variant()) {
    *variant.mutable_to_target()->mutable_epochs() = Value(3, 1);
  }
  EXPECT_THAT(Text(), HasSubstr("a higher --target_accuracy distinguishes the variants better"));
}

TEST_F(VerdictTest, OneRunPerVariant_NoVariantIsRanked) {
  proto::ReportVariant& mirrored = Add("mirrored", Value(1, 10), Value(1, 0.87));
  proto::ReportVariant& ps = Add("ps_sync", Value(1, 20), Value(1, 0.88));
  *mirrored.mutable_cost() = Value(1, 2);
  *ps.mutable_cost() = Value(1, 1);
  report_.mutable_target()->set_accuracy(0.85);
  for (proto::ReportVariant* variant : {&mirrored, &ps}) {
    proto::TimeToTarget& to_target = *variant->mutable_to_target();
    to_target.set_runs(1);
    to_target.set_reached(1);
    *to_target.mutable_seconds() = variant->seconds();
    *to_target.mutable_epochs() = Value(1, 2);
  }
  EXPECT_THAT(Text(), HasSubstr("\nMirrored trained in 10 s, ps_sync in 20 s, 2.00 times as long; one run of "
                                "a variant does not show whether the difference is chance."));
  EXPECT_THAT(Text(), StartsWith("No winner yet: "));
  for (const char* claim :
       {"faster", "astest", "first to reach", "Most accurate", "Cheapest", "Recommended", "±"}) {
    EXPECT_THAT(Text(), Not(HasSubstr(claim)));
  }
}

TEST_F(VerdictTest, ComparesWithTheFastestVariantOfAnotherStrategy) {
  Add("mirrored", Value(3, 10, 0.1), Value(3, 0.87)).set_global_batch(128);
  Add("mirrored", Value(3, 11, 0.1), Value(3, 0.87)).set_global_batch(128);
  Add("ps", Value(3, 30, 0.1), Value(3, 0.88)).set_global_batch(64);
  EXPECT_THAT(Text(), HasSubstr("3.00 times (2.92 to 3.08) as fast as ps"));
  EXPECT_THAT(Text(), AllOf(HasSubstr("Global batches ("), HasSubstr("differ")));
}

TEST_F(VerdictTest, ParameterServersAreComparedWithMirroredIfLocalIsFastest) {
  Add("local", Value(3, 5, 0.1), Value(3, 0.87, 0.001));
  Add("mirrored", Value(3, 9, 0.1), Value(3, 0.87, 0.001)).set_global_batch(128);
  Add("mirrored", Value(3, 10, 0.1), Value(3, 0.87, 0.001)).set_global_batch(384);
  Add("ps_sync", Value(3, 20, 0.1), Value(3, 0.87, 0.001)).set_global_batch(384);
  Add("ps_async", Value(3, 12, 0.1), Value(3, 0.86, 0.001)).set_global_batch(64);
  EXPECT_THAT(Text(), HasSubstr("\nFastest here: local trained in"));
  EXPECT_THAT(
      Text(),
      HasSubstr("Mirrored workers or parameter servers, both with global batch 384: mirrored trained in "
                "10.00 ± 0.25 s, 2.00 times (1.95 to 2.06) as fast as ps_sync with 20.00 ± 0.25 s. No "
                "difference in test accuracy is shown between the two variants, in the same order: "));
  EXPECT_THAT(Text(), HasSubstr("with different global batches: mirrored trained in 9.00 ± 0.25 s, 1.33 "
                                "times (1.29 to 1.38) as fast as ps_async"));
  const Contenders explained = FindingsOf(report_).explained;
  EXPECT_EQ(explained.best->strategy(), "mirrored");
  EXPECT_EQ(explained.rival->strategy(), "ps_async") << "the fastest of parameter servers";
}

TEST_F(VerdictTest, ListsOtherDifferencesBetweenJobs) {
  Add("mirrored", Value(3, 10, 0.1), Value(3, 0.87, 0.001));
  Add("ps_async", Value(3, 20, 0.1), Value(3, 0.87, 0.001));
  proto::JobDifference& difference = *report_.add_difference();
  difference.set_field("optimizer.learning_rate");
  for (const char* value : {"0.05", "0.1"}) difference.add_value(value);
  EXPECT_THAT(Text(), HasSubstr("The jobs differ in more than strategy, processes and batch: "
                                "optimizer.learning_rate: 0.05 for mirrored, 0.1 for ps_async."));
}

TEST_F(VerdictTest, WarnsIfOtherProgramsUsedTheCpu) {
  *Add("mirrored", Value(3, 10, 0.1), Value(3, 0.87)).mutable_others_cpu() = Value(3, 0.59, 0.1);
  *Add("ps_sync", Value(3, 20, 0.1), Value(3, 0.87)).mutable_others_cpu() = Value(3, 0.02, 0.01);
  EXPECT_THAT(Text(), HasSubstr("Other programs took a part of the CPU, on average 59 % during "
                                "mirrored: the jobs alone may be faster."));
}

TEST_F(VerdictTest, VariantWhoseAccuracyStayedAtChanceIsNamedAsAWarning) {
  Add("mirrored", Value(3, 10, 0.1), Value(3, 0.15)).set_chance_accuracy(0.1);
  Add("ps_sync", Value(3, 20, 0.1), Value(3, 0.87)).set_chance_accuracy(0.1);
  EXPECT_THAT(
      Text(),
      HasSubstr(
          "Accuracies hardly better than a guess (10 %): mirrored. Before any comparison, check labels"));
}

TEST_F(VerdictTest, SingleFailedRunShowsItsProgress) {
  proto::ReportVariant& variant = Add("mirrored", Value(0, 0), Value(0, 0));
  variant.add_run();
  variant.mutable_summary()->set_status("failed");
  variant.mutable_summary()->set_epochs(3);
  variant.mutable_summary()->set_steps(423);
  variant.mutable_summary()->mutable_first_failure()->set_message("worker 1 was lost\n  more");
  EXPECT_THAT(Text(), StartsWith("This run failed after 3 epochs and 423 updates: worker 1 was lost.\n"));
  variant.mutable_summary()->set_ending("worker 1 on vm was killed by signal 9 (Killed) at step 430");
  variant.mutable_summary()->set_go_on("go on from step 400 with: tethys train --resume --run_dir=runs/a");
  EXPECT_THAT(
      Text(),
      StartsWith("This run failed after 3 epochs and 423 updates: worker 1 on vm was killed by signal 9 "
                 "(Killed) at step 430.\nTo continue: go on from step 400 with: tethys train"));
  variant.mutable_summary()->set_status("interrupted");
  variant.mutable_summary()->clear_first_failure();
  variant.mutable_summary()->set_ending("stopped by Ctrl-C (SIGINT), at step 430");
  EXPECT_THAT(Text(),
              StartsWith("This run was interrupted after 3 epochs and 423 updates: stopped by Ctrl-C"));
}

TEST_F(VerdictTest, VerdictStatesTheNumberOfFailedRunsOfEachVariant) {
  Add("mirrored", Value(2, 10), Value(2, 0.87)).set_failed(1);
  proto::ReportVariant& ps = Add("ps", Value(0, 0), Value(0, 0));
  ps.set_failed(3);
  EXPECT_THAT(
      Text(),
      HasSubstr("Failed, and not counted in these results: 1 of 3 runs of mirrored; 3 of 3 runs of ps."));
  ps.add_run()->set_status("interrupted");
  EXPECT_THAT(Text(), HasSubstr("1 of 3 runs of mirrored; 2 of 3 runs of ps.\nInterrupted, and not counted "
                                "in these results: 1 of 3 "
                                "runs of ps."));
}

TEST_F(VerdictTest, VerdictOnOneVariantOrNoneComparesNothing) {
  EXPECT_THAT(Text(), HasSubstr("No run succeeded"));
  Add("local", Value(1, 10), Value(1, 0.87));
  EXPECT_EQ(Text(), "Local trained in 10 s, to a test accuracy of 87.00 %.");
}

TEST_F(VerdictTest, VariantWhoseRunsUsedDifferentExchangeMethods_IsListedInTheVerdict) {
  proto::ReportVariant& mirrored = Add("mirrored", Value(2, 10, 0.1), Value(2, 0.87, 0.001));
  for (const char* exchange : {"TCP among 3 workers", "shared memory among 3 workers"}) {
    proto::RunPoint& run = *mirrored.add_run();
    run.set_status("succeeded");
    run.set_exchange(exchange);
  }
  EXPECT_THAT(Text(),
              HasSubstr("Means over runs that did not exchange gradients in the same way: mirrored (1 by TCP "
                        "among 3 workers, 1 by shared memory among 3 workers)."));
  mirrored.mutable_run(0)->set_status("failed");
  EXPECT_THAT(Text(), Not(HasSubstr("alike")));
}

TEST_F(VerdictTest, RunThatLostAWorker_IsListedWithTheCostOfTheLoss) {
  proto::RunPoint& run = *Add("mirrored", Value(1, 10), Value(1, 0.87)).add_run();
  run.set_name("run-1");
  run.set_status("succeeded");
  EXPECT_THAT(Text(), Not(HasSubstr("lost processes")));
  run.set_losses("1 worker was lost; training stood still for 40 ms in all");
  EXPECT_THAT(Text(),
              HasSubstr("These runs lost processes or started again, and their times include the resulting "
                        "delays: mirrored, run run-1 (1 worker was lost; "
                        "training stood still for 40 ms in all)."));
}

}  // namespace
}  // namespace tethys
