#include "deploy/report/headline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deploy/report/cautions.h"
#include "deploy/report/ranking.h"
#include "deploy/report/variant_name.h"
#include "tests/deploy/report/report_values.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
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
  std::string Text() const { return HeadlineOf(report_).answer; }
  std::string HowSure() const { return HeadlineOf(report_).how_sure; }

  proto::Report report_;
};

TEST_F(HeadlineTest, NamesChoiceWithIntervalOfItsLead) {
  Add("ps_sync", 3, Value(3, 17, 0.2), Value(3, 0.8705, 0.001));
  Add("mirrored", 3, Value(3, 10, 0.1), Value(3, 0.87, 0.001));
  EXPECT_EQ(Text(),
            "Train with B (mirrored): B trains 1.70 times as fast as A (ps_sync), with no measurable "
            "difference in accuracy.");
  EXPECT_EQ(HowSure(), "B trains between 1.63 and 1.77 times as fast (95 % confidence, 3 runs of each).");
}

TEST_F(HeadlineTest, DifferenceWithinNoiseNamesBoth) {
  Add("mirrored", 3, Value(3, 10, 1), Value(3, 0.87, 0.001));
  Add("ps_sync", 3, Value(4, 10.5, 1), Value(3, 0.87, 0.001));
  EXPECT_EQ(Text(),
            "Train with A (mirrored) or B (ps_sync): neither is shown to be faster, with no measurable "
            "difference in accuracy.");
  EXPECT_THAT(HowSure(), StartsWith("B takes between 0.7"));
  EXPECT_THAT(HowSure(), EndsWith(" times as long as A (95 % confidence, 3 to 4 runs of each)."));
  EXPECT_THAT(Cautions(report_),
              ElementsAre("more runs (tethys compare --repeats=N) may show which is faster"));
}

TEST_F(HeadlineTest, TieOfThreeNamesAllWithTheHullOfTheirIntervals) {
  Add("mirrored", 3, Value(3, 10, 1), Value(3, 0.87, 0.001));
  Add("ps_sync", 3, Value(3, 11, 1), Value(3, 0.87, 0.001));
  Add("mirrored", 3, Value(3, 10.5, 1), Value(3, 0.87, 0.001));
  Add("ps_async", 3, Value(3, 30, 1), Value(3, 0.87, 0.001));
  EXPECT_EQ(Text(),
            "Train with A (mirrored), C (mirrored) or B (ps_sync): none is shown to be faster, with no "
            "measurable difference in accuracy.");
  EXPECT_EQ(HowSure(),
            "The other 2 take between 0.69 and 1.47 times as long as A (95 % confidence, 3 runs of each).");
}

TEST_F(HeadlineTest, TieOfManyNamesThreeByLetterAndCountsTheOthers) {
  for (const double seconds : {10.0, 10.1, 10.2, 10.3, 10.4}) {
    Add("workers at most 3 steps apart with 1 parameter server", 3, Value(3, seconds, 1),
        Value(3, 0.87, 0.001));
  }
  EXPECT_THAT(Text(), StartsWith("Train with A, B, C or 2 others: none is shown to be faster, with no"));
}

TEST_F(HeadlineTest, DifferenceInAccuracyThatRunsMayHideIsStated) {
  Add("mirrored", 3, Value(3, 10, 1), Value(3, 0.87, 0.02));
  proto::ReportVariant& ps = Add("ps_sync", 3, Value(3, 10.5, 1), Value(3, 0.87, 0.001));
  EXPECT_THAT(Text(),
              EndsWith("is shown to be faster, and differences in accuracy below 5 points may not show."));
  *ps.mutable_seconds() = Value(3, 20, 1);
  EXPECT_THAT(Text(),
              EndsWith("as fast as B (ps_sync), and differences in accuracy below 5 points may not show."));
}

TEST_F(HeadlineTest, TieOfSlowerButAccurateVariantsNamesTheFasterOne) {
  Add("mirrored", 3, Value(3, 10, 0.5), Value(3, 0.87, 0.001));
  Add("mirrored", 3, Value(3, 10.1, 0.5), Value(3, 0.871, 0.001));
  Add("ps_async", 3, Value(3, 5, 0.1), Value(3, 0.80, 0.001));
  EXPECT_EQ(
      Text(),
      "Train with A (mirrored) or B (mirrored): neither is shown to be faster, with no measurable "
      "difference in accuracy; C (ps_async) trains 2.00 times as fast, but is 7.10 percentage points less "
      "accurate than B.");
}

TEST_F(HeadlineTest, TieOfSingleWorkersIsFollowedByOneOfSeveral) {
  Add("local", 1, Value(3, 5, 0.5), Value(3, 0.87, 0.001));
  Add("ps_sync", 1, Value(3, 5.1, 0.5), Value(3, 0.87, 0.001));
  Add("mirrored", 3, Value(3, 10, 0.1), Value(3, 0.87, 0.001));
  EXPECT_THAT(Text(), AllOf(StartsWith("Train with A (local) or B (ps_sync): neither is shown to be faster,"),
                            EndsWith("; if several workers must take part, with C (mirrored).")));
}

TEST_F(HeadlineTest, MuchCpuOfOtherProgramsIsPartOfHowSureItIs) {
  Add("mirrored", 3, Value(3, 10, 0.1), Value(3, 0.87, 0.001));
  Add("ps_sync", 3, Value(3, 20, 0.1), Value(3, 0.87, 0.001));
  *report_.mutable_variant(1)->mutable_others_cpu() = Value(3, 0.59);
  EXPECT_THAT(HowSure(), EndsWith("runs of each). Other programs took up to 59 % of the CPU."));
  EXPECT_THAT(Cautions(report_), IsEmpty());
  *report_.mutable_variant(1)->mutable_others_cpu() = Value(3, 0.19);
  EXPECT_THAT(HowSure(), Not(HasSubstr("programs")));
  EXPECT_THAT(Cautions(report_), ElementsAre("other programs took up to 19 % of the CPU"));
}

TEST_F(HeadlineTest, DifferenceInAccuracyOfEquallyFastVariantsIsNamed) {
  Add("mirrored", 3, Value(3, 10, 1), Value(3, 0.872, 0.0002));
  Add("ps_sync", 3, Value(3, 10.5, 1), Value(3, 0.87, 0.0002));
  Add("ps_async", 3, Value(3, 20, 1), Value(3, 0.8725, 0.005));
  EXPECT_THAT(Text(),
              HasSubstr("neither is shown to be faster, but A is 0.20 percentage points more accurate than "
                        "B."));
}

TEST_F(HeadlineTest, RivalIsAsAccurateIfThereIsOne) {
  Add("ps_async", 3, Value(3, 9, 0.1), Value(3, 0.80, 0.001));
  Add("mirrored", 3, Value(3, 10, 0.1), Value(3, 0.87, 0.001));
  Add("ps_sync", 3, Value(3, 20, 0.1), Value(3, 0.87, 0.001));
  EXPECT_THAT(Text(), StartsWith("Train with B (mirrored): B trains 2.00 times as fast as C (ps_sync)"));
  EXPECT_THAT(HowSure(), StartsWith("B trains between 1.94 and 2.06 times as fast (95 %"));
}

TEST_F(HeadlineTest, LessAccurateRivalThatIsNotShownToBeSlowerIsSaidSo) {
  Add("mirrored", 3, Value(3, 10, 1), Value(3, 0.87, 0.001));
  Add("ps_async", 3, Value(3, 10.5, 1), Value(3, 0.80, 0.001));
  EXPECT_THAT(Text(), HasSubstr("as fast as B (ps_async), and is 7.00 percentage points more accurate."));
  EXPECT_THAT(HowSure(), HasSubstr("times as fast, so perhaps not faster at all, and between 6.65 and 7.35 "
                                   "percentage points more accurate (95 % confidence, 3 runs of each)."));
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
            "Train with B (ps_sync): B reaches 85 % validation accuracy in 4.00 ± 0.25 s, and A (mirrored) "
            "takes 1.50 times as long.");
  EXPECT_EQ(HowSure(), "A takes between 1.39 and 1.61 times as long (95 % confidence, 3 runs of each).");
  reach(ps, 3, Value(3, 5.9, 0.1));
  EXPECT_EQ(Text(),
            "Train with B (ps_sync) or A (mirrored): neither is shown to reach 85 % validation accuracy "
            "sooner.");
  reach(ps, 3, Value(2, 4, 0.1));
  EXPECT_EQ(Text(),
            "Train with A (mirrored): only A reached 85 % validation accuracy in all of its runs, in 6.00 ± "
            "0.25 s.");
  EXPECT_EQ(HowSure(), "");
  reach(*report_.mutable_variant(0), 3, Value(0, 0));
  EXPECT_EQ(Text(), "Not decided: no variant reached 85 % validation accuracy in all of its runs.");
}

TEST_F(HeadlineTest, AccurateVariantIsChosenBeforeFasterOne) {
  Add("ps_async", 3, Value(3, 8, 0.1), Value(3, 0.86, 0.001));
  Add("mirrored", 3, Value(3, 10, 0.1), Value(3, 0.87, 0.001));
  EXPECT_EQ(
      Text(),
      "Train with B (mirrored) for accuracy, or with A (ps_async) for speed: A trains 1.25 times as fast, "
      "but is 1.00 percentage points less accurate than B.");
  EXPECT_EQ(
      HowSure(),
      "A trains between 1.20 and 1.30 times as fast as B, and is between 0.65 and 1.35 percentage points "
      "less accurate than B (95 % confidence, 3 runs of each).");
}

TEST_F(HeadlineTest, ChoiceOfOneWorkerIsFollowedByOneOfSeveral) {
  Add("local", 1, Value(3, 5, 0.1), Value(3, 0.87, 0.001));
  Add("ps_sync", 3, Value(3, 20, 0.1), Value(3, 0.87, 0.001));
  Add("mirrored", 3, Value(3, 10, 0.1), Value(3, 0.87, 0.001));
  EXPECT_THAT(Text(),
              HasSubstr("Train with A (local), or with C (mirrored) if several workers must take part: A "
                        "trains 2.00 times as fast as C,"));
}

TEST_F(HeadlineTest, ChoiceOfOneWorkerIsMoreAccurateThanFasterOnes) {
  Add("local", 1, Value(3, 20, 0.1), Value(3, 0.88, 0.001));
  Add("mirrored", 3, Value(3, 10, 0.1), Value(3, 0.87, 0.001));
  EXPECT_EQ(
      Text(),
      "Train with A (local) for accuracy, or with B (mirrored) for speed: B trains 2.00 times as fast, but "
      "is 1.00 percentage points less accurate than A.");
}

TEST_F(HeadlineTest, RivalOfOneWorkerHasSeveral) {
  Add("local", 1, Value(3, 5, 0.1), Value(3, 0.87, 0.001));
  Add("ps_sync", 1, Value(3, 8, 0.1), Value(3, 0.87, 0.001));
  Add("mirrored", 3, Value(3, 10, 0.1), Value(3, 0.86, 0.001));
  Add("ps_sync", 3, Value(3, 11, 0.1), Value(3, 0.86, 0.001));
  EXPECT_EQ(
      Text(),
      "Train with A (local), or with C (mirrored) if several workers must take part: A trains 2.00 times "
      "as fast as C, and is 1.00 percentage points more accurate.");
}

TEST_F(HeadlineTest, RivalOfOneWorkerReachedTheTarget) {
  report_.mutable_target()->set_accuracy(0.85);
  report_.mutable_target()->set_given(true);
  Add("local", 1, Value(3, 5, 0.1), Value(3, 0.87, 0.001));
  Add("ps_sync", 1, Value(3, 8, 0.1), Value(3, 0.87, 0.001));
  for (proto::ReportVariant& variant : *report_.mutable_variant()) {
    variant.mutable_to_target()->set_runs(3);
    variant.mutable_to_target()->set_reached(3);
    *variant.mutable_to_target()->mutable_seconds() = variant.seconds();
  }
  Add("mirrored", 3, Value(3, 4, 0.1), Value(3, 0.84, 0.001)).mutable_to_target()->set_runs(3);
  EXPECT_THAT(Text(), HasSubstr("and B (ps_sync) takes 1.60 times as long."));
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
            "Not decided yet: A (mirrored) trained in 10.00 ± 0.25 s, B (ps_sync) in 20 s, and a single run "
            "cannot tell a difference from chance.");
  EXPECT_EQ(HowSure(), "Not known from single runs: repeat with tethys compare --repeats=3 or more.");
}

TEST_F(HeadlineTest, VariantWithSingleRunIsLeftOutBesideRepeatedOnes) {
  Add("mirrored", 3, Value(3, 10, 0.1), Value(3, 0.87, 0.001));
  Add("ps_async", 3, Value(1, 5), Value(1, 0.87)).set_failed(2);
  Add("ps_sync", 3, Value(3, 20, 0.1), Value(3, 0.87, 0.001));
  EXPECT_THAT(Text(), StartsWith("Train with A (mirrored): A trains 2.00 times as fast as C (ps_sync)"));
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
  *mirrored.mutable_others_cpu() = Value(3, 0.19);
  proto::ResourceSummary& machine = *mirrored.mutable_summary()->add_resources();
  machine.set_host("vm");
  machine.set_cores(2);
  for (const char* field : {"a", "b", "c", "d"}) report_.add_difference()->set_field(field);
  report_.add_difference()->set_in_name(true);
  EXPECT_THAT(
      Cautions(report_),
      ElementsAre(
          "2 of 8 runs failed", "B hardly learned", "the jobs differ in a, b, c and 1 more",
          "other programs took up to 19 % of the CPU",
          "global batches differ, and so do the numbers of updates, on which accuracy depends",
          "all processes shared one computer with 2 cores, so nothing is known about several computers"));
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
