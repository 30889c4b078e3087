#include "deploy/report/headline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deploy/report/cautions.h"
#include "deploy/report/ranking.h"
#include "deploy/report/variant_name.h"
#include "tests/deploy/report/report_values.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class HeadlineTest : public ::testing::Test {
 protected:
  proto::ReportVariant& Add(const std::string& strategy, int workers, const proto::ReportValue& seconds,
                            const proto::ReportValue& accuracy) {
    proto::ReportVariant& variant = *report_.add_variant();
    variant.set_label(VariantLetters(report_.variant_size() - 1));
    variant.set_short_name(strategy);
    variant.set_strategy(strategy);
    variant.set_workers(workers);
    variant.set_runs(seconds.count());
    *variant.mutable_seconds() = seconds;
    *variant.mutable_test_accuracy() = accuracy;
    return variant;
  }
  std::string Text() const { return Headline(report_); }

  proto::Report report_;
};

TEST_F(HeadlineTest, NamesChoiceWithIntervalAndReason) {
  proto::ReportVariant& ps = Add("ps_sync", 3, Value(3, 17, 0.2), Value(3, 0.8705, 0.001));
  proto::ReportVariant& mirrored = Add("mirrored", 3, Value(3, 10, 0.1), Value(3, 0.87, 0.001));
  for (proto::ReportVariant* variant : {&ps, &mirrored}) {
    *variant->mutable_step_seconds() = variant->seconds();
    *variant->mutable_compute_seconds() = Value(3, 6);
    *variant->mutable_exchange_seconds() = Value(3, variant->seconds().mean() - 8);
  }
  EXPECT_EQ(
      Text(),
      "Train with B (mirrored): B is 1.70 times (95 % interval 1.63 to 1.77, 3 runs of each) as fast as A "
      "(ps_sync), at equal accuracy within noise, mainly because its workers wait 7 s less for the exchange "
      "of gradients and parameters.");
  *ps.mutable_exchange_seconds() = mirrored.exchange_seconds();
  EXPECT_THAT(Text(), Not(HasSubstr("because"))) << "no measured part explains half of the difference";
}

TEST_F(HeadlineTest, DifferenceWithinNoiseNamesBoth) {
  Add("mirrored", 3, Value(3, 10, 1), Value(3, 0.87, 0.001));
  Add("ps_sync", 3, Value(4, 10.5, 1), Value(3, 0.87, 0.001));
  EXPECT_THAT(
      Text(),
      StartsWith("Train with A (mirrored) or B (ps_sync): neither is shown to be faster (B takes 1.05 "
                 "times as long, 95 % interval 0.7"));
  EXPECT_THAT(Text(), HasSubstr("3 and 4 runs), at equal accuracy within noise; more runs (--repeats)"));
}

TEST_F(HeadlineTest, RivalIsAsAccurateIfThereIsOne) {
  Add("ps_async", 3, Value(3, 9, 0.1), Value(3, 0.80, 0.001));
  Add("mirrored", 3, Value(3, 10, 0.1), Value(3, 0.87, 0.001));
  Add("ps_sync", 3, Value(3, 20, 0.1), Value(3, 0.87, 0.001));
  EXPECT_THAT(Text(), StartsWith("Train with B (mirrored): B is 2.00 times (95 % interval 1.94 to 2.06, 3 "
                                 "runs of each) as fast as C (ps_sync)"));
}

TEST_F(HeadlineTest, LessAccurateRivalThatIsNotShownToBeSlowerIsSaidSo) {
  Add("mirrored", 3, Value(3, 10, 1), Value(3, 0.87, 0.001));
  Add("ps_async", 3, Value(3, 10.5, 1), Value(3, 0.80, 0.001));
  EXPECT_THAT(Text(), HasSubstr("3 runs of each, so perhaps not faster at all) as fast as B (ps_async), and "
                                "is more accurate by 7.00 percentage points."));
}

TEST_F(HeadlineTest, GivenTargetDecidesByTimeToIt) {
  report_.mutable_target()->set_accuracy(0.85);
  report_.mutable_target()->set_given(true);
  const auto reach = [](proto::ReportVariant& variant, int runs, const proto::ReportValue& seconds) {
    variant.mutable_to_target()->set_runs(runs);
    variant.mutable_to_target()->set_reached(seconds.count());
    *variant.mutable_to_target()->mutable_seconds() = seconds;
  };
  reach(Add("mirrored", 3, Value(3, 10, 0.1), Value(3, 0.87, 0.001)), 3, Value(3, 6, 0.1));
  proto::ReportVariant& ps = Add("ps_sync", 3, Value(3, 20, 0.1), Value(3, 0.87, 0.001));
  reach(ps, 3, Value(3, 4, 0.1));
  EXPECT_EQ(Text(),
            "Train with B (ps_sync): B reaches 85 % validation accuracy in 4.00 ± 0.25 s, 1.50 times (95 % "
            "interval 1.39 to 1.61, 3 runs of each) as soon as A (mirrored).");
  reach(ps, 3, Value(3, 5.9, 0.1));
  EXPECT_THAT(Text(),
              StartsWith("Train with B (ps_sync) or A (mirrored): neither is shown to reach 85 % validation "
                         "accuracy sooner (A takes 1.02 times as long"));
  reach(ps, 3, Value(2, 4, 0.1));
  EXPECT_EQ(Text(),
            "Train with A (mirrored): only A reached 85 % validation accuracy in all of its runs, in 6.00 ± "
            "0.25 s.");
  reach(*report_.mutable_variant(0), 3, Value(0, 0));
  EXPECT_EQ(Text(), "Not decided: no variant reached 85 % validation accuracy in all of its runs.");
}

TEST_F(HeadlineTest, AccurateVariantIsChosenBeforeFasterOne) {
  Add("ps_async", 3, Value(3, 8, 0.1), Value(3, 0.86, 0.001));
  Add("mirrored", 3, Value(3, 10, 0.1), Value(3, 0.87, 0.001));
  EXPECT_EQ(Text(),
            "Train with B (mirrored): A (ps_async) is 1.25 times (95 % interval 1.20 to 1.30, 3 runs of "
            "each) as fast, but 1.00 percentage points less accurate than B.");
}

TEST_F(HeadlineTest, ChoiceOfOneWorkerIsFollowedByOneOfSeveral) {
  Add("local", 1, Value(3, 5, 0.1), Value(3, 0.87, 0.001));
  Add("ps_sync", 3, Value(3, 20, 0.1), Value(3, 0.87, 0.001));
  Add("mirrored", 3, Value(3, 10, 0.1), Value(3, 0.87, 0.001));
  EXPECT_THAT(Text(),
              HasSubstr("Train with A (local), or with C (mirrored) if several workers must take part: A is "
                        "2.00 times (95 % interval 1.89 to 2.11, 3 runs of each) as fast as C,"));
}

TEST_F(HeadlineTest, ExplanationIsAboutTheVariantsOfTheAnswer) {
  Add("mirrored", 3, Value(3, 8, 0.1), Value(3, 0.80, 0.001));
  Add("ps_async", 3, Value(3, 7, 0.1), Value(3, 0.80, 0.001));
  Add("ps_sync", 3, Value(3, 9, 0.1), Value(3, 0.87, 0.001));
  Add("mirrored", 3, Value(3, 20, 0.1), Value(3, 0.87, 0.001));
  const Contenders explained = ContendersOf(report_);
  EXPECT_EQ(explained.best->label(), "C");
  EXPECT_EQ(explained.rival->label(), "D");
}

TEST_F(HeadlineTest, SingleRunDecidesNothing) {
  Add("mirrored", 3, Value(3, 10, 0.1), Value(3, 0.87));
  Add("ps_sync", 3, Value(1, 20), Value(1, 0.87));
  EXPECT_EQ(Text(),
            "Not decided, because single runs cannot tell a difference from chance: A (mirrored) trained in "
            "10.00 ± 0.25 s, B "
            "(ps_sync) in 20 s; repeat with --repeats=3 or more.");
}

TEST_F(HeadlineTest, VariantWithSingleRunIsLeftOutBesideRepeatedOnes) {
  Add("mirrored", 3, Value(3, 10, 0.1), Value(3, 0.87, 0.001));
  Add("ps_async", 3, Value(1, 5), Value(1, 0.87)).set_failed(2);
  Add("ps_sync", 3, Value(3, 20, 0.1), Value(3, 0.87, 0.001));
  EXPECT_THAT(Text(), StartsWith("Train with A (mirrored): A is 2.00 times (95 % interval 1.94 to 2.06, 3 "
                                 "runs of each) as fast as C (ps_sync)"));
  EXPECT_THAT(Cautions(report_),
              ElementsAre("2 of 9 runs failed", "B has a single successful run and cannot be recommended"));
}

TEST_F(HeadlineTest, SingleVariantHasOnlyItsOwnCautions) {
  proto::ReportVariant& variant = Add("mirrored", 3, Value(1, 10), Value(1, 0.12));
  variant.set_failed(1);
  variant.set_chance_accuracy(0.1);
  *variant.mutable_others_cpu() = Value(1, 0.2);
  EXPECT_THAT(Cautions(report_),
              ElementsAre("A hardly learned", "other programs took up to 20 % of the CPU"));
}

TEST_F(HeadlineTest, CautionsNameWhatLimitsTheAnswer) {
  proto::ReportVariant& mirrored = Add("mirrored", 3, Value(3, 10, 0.1), Value(3, 0.87));
  proto::ReportVariant& ps = Add("ps_sync", 3, Value(3, 20, 0.1), Value(3, 0.12));
  EXPECT_THAT(Cautions(report_), IsEmpty());
  ps.set_failed(2);
  ps.set_chance_accuracy(0.1);
  ps.set_global_batch(64);
  *mirrored.mutable_others_cpu() = Value(3, 0.59);
  proto::ResourceSummary& machine = *mirrored.mutable_summary()->add_resources();
  machine.set_host("vm");
  machine.set_cores(2);
  for (const char* field : {"a", "b", "c", "d"}) report_.add_difference()->set_field(field);
  report_.add_difference()->set_in_name(true);
  EXPECT_THAT(
      Cautions(report_),
      ElementsAre(
          "2 of 8 runs failed", "B hardly learned", "the jobs differ in a, b, c and 1 more",
          "other programs took up to 59 % of the CPU",
          "global batches differ, and so do the numbers of updates",
          "all processes shared one computer with 2 cores: scaling to several computers is not shown"));
}

TEST(VariantNameTest, LettersAndIndexAreInverse) {
  EXPECT_EQ(VariantLetters(0), "A");
  EXPECT_EQ(VariantLetters(25), "Z");
  EXPECT_EQ(VariantLetters(26), "AA");
  for (const int index : {0, 25, 26, 701, 702, 5000}) EXPECT_EQ(VariantIndex(VariantLetters(index)), index);
  for (const char* text : {"", "a", "A1", "AAAA"}) EXPECT_FALSE(VariantIndex(text).has_value()) << text;
}

}  // namespace
}  // namespace tethys
