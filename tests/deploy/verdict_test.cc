#include "deploy/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_join.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

proto::ReportValue Value(int count, double mean, double deviation = 0) {
  proto::ReportValue value;
  value.set_count(count);
  value.set_mean(mean);
  value.set_deviation(deviation);
  return value;
}

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
  std::string Text() const { return absl::StrJoin(Verdict(report_), "\n"); }

  proto::Report report_;
};

TEST_F(VerdictTest, TheQuotientOfMeansCarriesTheirStandardErrors) {
  const Ratio ratio = RatioOf(Value(4, 20, 2), Value(4, 10, 0));
  EXPECT_DOUBLE_EQ(ratio.value, 2);
  EXPECT_DOUBLE_EQ(ratio.error, 0.1);  // 2 * (2 / sqrt 4) / 20
  EXPECT_LT(RatioOf(Value(1, 20), Value(4, 10, 1)).error, 0);
}

TEST_F(VerdictTest, NamesTheFastestAndByHowMuch) {
  Add("mirrored", Value(3, 10, 0.1), Value(3, 0.87, 0.001));
  Add("ps", Value(3, 17, 0.2), Value(3, 0.8705, 0.001));
  EXPECT_THAT(
      Text(),
      StartsWith("Fastest here: mirrored trained in 10.000 ± 0.058 s, 1.70 ± 0.02 times faster than ps"));
  EXPECT_THAT(Text(), HasSubstr("equal within noise"));
}

TEST_F(VerdictTest, ADifferenceWithinTheNoiseIsNone) {
  Add("mirrored", Value(3, 10, 1), Value(3, 0.87, 0.001));
  Add("ps", Value(3, 10.5, 1), Value(3, 0.90, 0.001));
  EXPECT_THAT(Text(), StartsWith("No difference in speed is shown"));
  EXPECT_THAT(Text(), HasSubstr("Test accuracy of mirrored is lower by 3.00 ± 0.08 points: 87.000 ± 0.058 % "
                                "against 90.000 ± 0.058 %"));
}

TEST_F(VerdictTest, TwoRunsShowOnlyDifferencesFarBeyondTheirScatter) {
  Add("mirrored", Value(2, 10, 0.1), Value(2, 0.87, 0.001));
  Add("ps", Value(2, 10.5, 0.1), Value(2, 0.875, 0.001));
  EXPECT_THAT(Text(), StartsWith("No difference in speed is shown"));  // 0.5 s, five times its error.
  EXPECT_THAT(Text(), HasSubstr("difference -0.50 ± 0.10 points; these runs cannot show one below 1.3"));
}

TEST_F(VerdictTest, NamesTheMostAccurateWhereThatIsNotTheFastest) {
  Add("mirrored", Value(3, 10, 0.1), Value(3, 0.87, 0.001));
  Add("ps", Value(3, 17, 0.2), Value(3, 0.89, 0.001));
  EXPECT_THAT(Text(), HasSubstr("Most accurate of all: ps, 89.000 ± 0.058 % in 17.00 ± 0.12 s."));
}

TEST_F(VerdictTest, SaysWhereTheTimeOfAStepGoes) {
  proto::ReportVariant& mirrored = Add("mirrored", Value(3, 10, 0.1), Value(3, 0.87, 0.001));
  mirrored.mutable_summary()->mutable_phases()->set_exchange_us(2000);
  mirrored.mutable_summary()->mutable_phases()->set_total_us(2500);
  *mirrored.mutable_bytes_per_step() = Value(3, 2048);
  Add("ps", Value(3, 17, 0.2), Value(3, 0.87, 0.001))
      .mutable_summary()
      ->mutable_phases()
      ->set_exchange_us(4000);
  EXPECT_THAT(Text(), HasSubstr("the exchange takes 2 ms of 2.5 ms with mirrored, which moves 2 KiB a "
                                "worker, in and out, and 4 ms"));
}

TEST_F(VerdictTest, OneRunKnowsNoUncertaintyAndSaysSo) {
  Add("mirrored", Value(1, 10), Value(1, 0.87));
  Add("ps", Value(1, 20), Value(1, 0.88));
  EXPECT_THAT(Text(), HasSubstr("2.00 times faster"));
  EXPECT_THAT(Text(), HasSubstr("no uncertainty is known"));
  EXPECT_THAT(Text(), Not(HasSubstr("±")));
}

TEST_F(VerdictTest, ComparesWithTheBestOfAnotherStrategy) {
  Add("mirrored", Value(1, 10), Value(1, 0.87)).set_global_batch(128);
  Add("mirrored", Value(1, 11), Value(1, 0.87)).set_global_batch(128);
  Add("ps", Value(1, 30), Value(1, 0.88)).set_global_batch(64);
  EXPECT_THAT(Text(), HasSubstr("3.00 times faster than ps"));
  EXPECT_THAT(Text(), AllOf(HasSubstr("Global batches ("), HasSubstr("differ")));
}

TEST_F(VerdictTest, OneVariantAndNoneAreSaidPlainly) {
  EXPECT_THAT(Text(), HasSubstr("No run succeeded"));
  Add("local", Value(1, 10), Value(1, 0.87));
  EXPECT_EQ(Text(), "local trained in 10 s, to a test accuracy of 87.00 %.");
}

}  // namespace
}  // namespace tethys
