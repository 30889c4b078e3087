#include "deploy/report/headline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "deploy/report/cautions.h"
#include "deploy/report/findings.h"
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
  std::string Text() const { return HeadlineOf(report_, FindingsOf(report_)).answer; }
  std::string HowSure() const { return HeadlineOf(report_, FindingsOf(report_)).how_sure; }
  std::vector<std::string> CautionsText() const { return Cautions(report_, FindingsOf(report_)); }

  proto::Report report_;
};

TEST_F(HeadlineTest, NamesChoiceWithIntervalOfItsLead) {
  Add("ps_sync", 3, Value(3, 17, 0.2), Value(3, 0.8705, 0.001));
  Add("mirrored", 3, Value(3, 10, 0.1), Value(3, 0.87, 0.001));
  EXPECT_EQ(Text(),
            "Train with B (mirrored): B trains 1.70 times as fast as A (ps_sync), with no measurable "
            "difference in accuracy.");
  EXPECT_EQ(HowSure(), "B trains between 1.64 and 1.77 times as fast (95 % confidence, 3 runs of each).");
}

TEST_F(HeadlineTest, DifferenceWithinNoise_NamesBothVariants) {
  Add("mirrored", 3, Value(3, 10, 1), Value(3, 0.87, 0.001));
  Add("ps_sync", 3, Value(4, 10.5, 1), Value(3, 0.87, 0.001));
  EXPECT_EQ(
      Text(),
      "No winner between A (mirrored) and B (ps_sync): 3 to 4 runs of each do not show which is faster, "
      "with no measurable difference in accuracy.");
  EXPECT_THAT(HowSure(), StartsWith("B takes between 0.7"));
  EXPECT_THAT(HowSure(), HasSubstr(" times as long as A (95 % confidence, 3 to 4 runs of each). What would "
                                   "decide: if the times of A and B differ by a factor of 1.05, as their "
                                   "means do, about 30 runs of each (tethys compare --repeats=30)."));
  EXPECT_THAT(CautionsText(), IsEmpty());
}

TEST_F(HeadlineTest, TieOfThreeVariantsNamesAllAndTheUnionOfTheirIntervals) {
  Add("mirrored", 3, Value(3, 10, 1), Value(3, 0.87, 0.001));
  Add("ps_sync", 3, Value(3, 11, 1), Value(3, 0.87, 0.001));
  Add("mirrored", 3, Value(3, 10.5, 1), Value(3, 0.87, 0.001));
  Add("ps_async", 3, Value(3, 30, 1), Value(3, 0.87, 0.001));
  EXPECT_EQ(Text(),
            "No winner among A (mirrored), C (mirrored) and B (ps_sync): 3 runs of each do not show which is "
            "faster, with no measurable difference in accuracy; D (ps_async) takes 3.00 times as long as A.");
  EXPECT_THAT(HowSure(), StartsWith("The other 2 take between 0.75 and 1.54 times as long as A (95 % "
                                    "confidence, 3 runs of each). What would decide:"));
}

TEST_F(HeadlineTest, TieOfManyNamesThreeByLetterAndCountsTheOthers) {
  for (const double seconds : {10.0, 10.1, 10.2, 10.3, 10.4}) {
    Add("workers at most 3 steps apart with 1 parameter server", 3, Value(3, seconds, 1),
        Value(3, 0.87, 0.001));
  }
  EXPECT_THAT(Text(),
              StartsWith("No winner among A, B, C and 2 others: 3 runs of each do not show which is"));
}

TEST_F(HeadlineTest, TextStatesTheAccuracyDifferenceThatTheRunsCouldNotReveal) {
  Add("mirrored", 3, Value(3, 10, 1), Value(3, 0.87, 0.02));
  proto::ReportVariant& ps = Add("ps_sync", 3, Value(3, 10.5, 1), Value(3, 0.87, 0.001));
  EXPECT_THAT(Text(), EndsWith("show which is faster, and these runs may not show differences in accuracy "
                               "below 5 percentage points."));
  *ps.mutable_seconds() = Value(3, 20, 1);
  EXPECT_THAT(Text(), EndsWith("as fast as B (ps_sync), and these runs may not show differences in accuracy "
                               "below 5 percentage points."));
}

TEST_F(HeadlineTest, TieOfSlowerVariantsNamesTheFasterLessAccurateVariant) {
  Add("mirrored", 3, Value(3, 10, 0.5), Value(3, 0.87, 0.001));
  Add("mirrored", 3, Value(3, 10.1, 0.5), Value(3, 0.871, 0.001));
  Add("ps_async", 3, Value(3, 5, 0.1), Value(3, 0.80, 0.001));
  EXPECT_EQ(
      Text(),
      "No winner between A (mirrored) and B (mirrored): 3 runs of each do not show which is faster, with no "
      "measurable difference in accuracy; C (ps_async) trains 2.00 times as fast, but is 7.10 percentage "
      "points less "
      "accurate than B.");
}

TEST_F(HeadlineTest, WinningStrategyIsNamedBeforeTheTieOfItsVariants) {
  Add("mirrored", 3, Value(3, 10, 0.5), Value(3, 0.87, 0.001));
  Add("mirrored", 4, Value(3, 10.1, 0.5), Value(3, 0.87, 0.001));
  proto::ReportVariant& ps = Add("ps_sync", 3, Value(3, 20, 0.5), Value(3, 0.87, 0.001));
  EXPECT_EQ(Text(),
            "Train with A (mirrored) or B (mirrored): C (ps_sync) takes 2.00 times as long as A; no winner "
            "between A and B: 3 runs of each do not show which is faster, with no measurable difference in "
            "accuracy.");
  EXPECT_THAT(HowSure(), AllOf(StartsWith("C takes between 1.7"), HasSubstr(" as long as A. B takes ")));
  *ps.mutable_seconds() = Value(3, 10, 3);
  *ps.mutable_test_accuracy() = Value(3, 0.80, 0.001);
  EXPECT_THAT(Text(), StartsWith("Train with A (mirrored) or B (mirrored): C (ps_sync) is 7.00 percentage "
                                 "points less accurate than A; no winner between A and B: "));
  EXPECT_THAT(HowSure(), StartsWith("C is between 6."));
}

TEST_F(HeadlineTest, FurtherRunsAreSuggestedForVariantsOfTwoStrategies) {
  Add("mirrored", 3, Value(3, 10, 1), Value(3, 0.87, 0.001));
  Add("mirrored", 4, Value(3, 10.1, 1), Value(3, 0.87, 0.001));
  Add("ps_sync", 3, Value(3, 11, 1), Value(3, 0.87, 0.001));
  EXPECT_THAT(HowSure(), HasSubstr("What would decide: if the times of A and C differ"));
}

TEST_F(HeadlineTest, TieOfOneWorkerVariantsAlsoNamesOneOfSeveralWorkers) {
  Add("local", 1, Value(3, 5, 0.5), Value(3, 0.87, 0.001));
  Add("ps_sync", 1, Value(3, 5.1, 0.5), Value(3, 0.87, 0.001));
  Add("mirrored", 3, Value(3, 10, 0.1), Value(3, 0.87, 0.001));
  EXPECT_THAT(Text(), AllOf(StartsWith("No winner between A (local) and B (ps_sync): 3 runs of each do not"),
                            EndsWith("; if several workers must take part, train with C (mirrored).")));
}

TEST_F(HeadlineTest, ComparisonOfOneWorkerVariantsOnly_HasAnAnswer) {
  Add("local", 1, Value(3, 10, 0.1), Value(3, 0.87, 0.001));
  Add("local", 1, Value(3, 20, 0.1), Value(3, 0.87, 0.001));
  EXPECT_THAT(Text(), StartsWith("Train with A (local)"));
}

TEST_F(HeadlineTest, HighCpuUseOfOtherProgramsIsStated) {
  Add("mirrored", 3, Value(3, 10, 0.1), Value(3, 0.87, 0.001));
  Add("ps_sync", 3, Value(3, 20, 0.1), Value(3, 0.87, 0.001));
  *report_.mutable_variant(1)->mutable_others_cpu() = Value(3, 0.59);
  EXPECT_THAT(HowSure(), EndsWith("runs of each). Other programs took up to 59 % of the CPU."));
  EXPECT_THAT(CautionsText(), IsEmpty());
  *report_.mutable_variant(1)->mutable_others_cpu() = Value(3, 0.19);
  EXPECT_THAT(HowSure(), Not(HasSubstr("programs")));
  EXPECT_THAT(CautionsText(), ElementsAre("other programs took up to 19 % of the CPU"));
}

TEST_F(HeadlineTest, DifferenceInAccuracyOfEquallyFastVariantsIsNamed) {
  Add("mirrored", 3, Value(3, 10, 1), Value(3, 0.872, 0.0002));
  Add("ps_sync", 3, Value(3, 10.5, 1), Value(3, 0.87, 0.0002));
  Add("ps_async", 3, Value(3, 20, 1), Value(3, 0.8725, 0.005));
  EXPECT_THAT(Text(),
              HasSubstr("do not show which is faster, but A is 0.20 percentage points more accurate than "
                        "B;"));
}

TEST_F(HeadlineTest, RivalIsAnEquallyAccurateVariantIfThereIsOne) {
  Add("ps_async", 3, Value(3, 9, 0.1), Value(3, 0.80, 0.001));
  Add("mirrored", 3, Value(3, 10, 0.1), Value(3, 0.87, 0.001));
  Add("ps_sync", 3, Value(3, 20, 0.1), Value(3, 0.87, 0.001));
  EXPECT_THAT(Text(), StartsWith("Train with B (mirrored): B trains 2.00 times as fast as C (ps_sync)"));
  EXPECT_THAT(HowSure(), StartsWith("B trains between 1.95 and 2.06 times as fast (95 %"));
}

TEST_F(HeadlineTest, LessAccurateRivalNotShownSlower_IsNotCalledSlower) {
  Add("mirrored", 3, Value(3, 10, 1), Value(3, 0.87, 0.001));
  Add("ps_async", 3, Value(3, 10.5, 1), Value(3, 0.80, 0.001));
  EXPECT_EQ(Text(),
            "Train with A (mirrored): A is 7.00 percentage points more accurate than B (ps_async), and no "
            "difference in speed is shown.");
  EXPECT_THAT(HowSure(), StartsWith("A is between 6.65 and 7.35 percentage points more accurate than B, and "
                                    "B takes between 0.7"));
  EXPECT_THAT(HowSure(), EndsWith(" times as long as A (95 % confidence, 3 runs of each)."));
}

TEST_F(HeadlineTest, MostAccurateVariantIsNamedIfTheChoiceIsLessAccurateThanItsRival) {
  // Two runs of variant A, the choice, are too few to show that B, the most accurate variant, is more
  // accurate than A.
  Add("mirrored", 3, Value(2, 10, 0.01), Value(2, 0.86, 0.0001));
  Add("mirrored", 3, Value(3, 20, 0.1), Value(3, 0.90, 0.01));
  Add("ps_sync", 3, Value(3, 10.5, 1), Value(3, 0.87, 0.0001));
  EXPECT_EQ(Text(),
            "Train with A (mirrored): B (mirrored) is 3.00 percentage points more accurate than C (ps_sync), "
            "and no difference in speed is shown between the latter and A.");
  EXPECT_THAT(HowSure(), StartsWith("B is between "));
}

TEST_F(HeadlineTest, SlowerMeanWithinNoiseIsNotCalledSlower) {
  // The times vary as on a machine where other programs run now and then.
  Add("local", 1, OfRuns({0.9, 4.5, 0.8}), OfRuns({0.83, 0.84, 0.82}, proto::ReportValue::SHARE));
  Add("mirrored", 2, OfRuns({0.3, 0.5, 1.0}), OfRuns({0.63, 0.64, 0.62}, proto::ReportValue::SHARE));
  EXPECT_EQ(Text(),
            "Train with A (local), or with B (mirrored) if several workers must take part: A is 20.00 "
            "percentage points more accurate than B, and no difference in speed is shown.");
}

TEST_F(HeadlineTest, TwoRunsAreSaidToBeTooFewForAConfidenceInterval) {
  Add("mirrored", 3, Value(2, 10, 1), Share(2, 0.87, 0.05));
  Add("ps_sync", 3, Value(2, 10.5, 1), Share(2, 0.88, 0.05));
  EXPECT_THAT(Text(),
              EndsWith("do not show which is faster, and two runs are too few to compare accuracies."));
  EXPECT_THAT(HowSure(), StartsWith("Two runs are too few for a confidence interval. What would decide:"));
}

TEST_F(HeadlineTest, TiedMultiWorkerVariantsAreAllNamedBesideTheBestOneWorkerVariant) {
  Add("local", 1, Value(3, 5, 0.1), Value(3, 0.87, 0.001));
  Add("ps_sync", 3, Value(3, 10.1, 0.1), Value(3, 0.87, 0.001));
  Add("mirrored", 3, Value(3, 10, 0.1), Value(3, 0.87, 0.001));
  EXPECT_THAT(Text(), StartsWith("Train with A (local), or with C (mirrored) or B (ps_sync) if several"));
}

TEST_F(HeadlineTest, TieNamesTheAdvantagesOfItsVariants) {
  Add("mirrored", 2, Value(3, 10, 0.1), Value(3, 0.87, 0.001));
  proto::ReportVariant& ps = Add("ps_sync", 2, Value(3, 10.01, 0.1), Value(3, 0.87, 0.001));
  EXPECT_THAT(
      HowSure(),
      EndsWith("A and B may well be equally fast: even 100 runs of each would not show a difference."));
  ps.set_servers(1);
  EXPECT_THAT(HowSure(), EndsWith("would not show a difference. A has fewer processes."));
  *ps.mutable_test_accuracy() = Value(3, 0.87, 0.004);
  EXPECT_THAT(HowSure(), EndsWith("A has fewer processes and a smaller spread of accuracy."));
  Add("ps_async", 2, Value(3, 10.02, 0.1), Value(3, 0.87, 0.0005)).set_servers(1);
  EXPECT_THAT(HowSure(),
              EndsWith("Of A, B and C, A has the fewest processes and C has the smallest spread of "
                       "accuracy."));
  for (proto::ReportVariant& variant : *report_.mutable_variant()) {
    *variant.mutable_test_accuracy() = Value(3, 0.87, variant.label() == "C" ? 0.0001 : 0.0005);
  }
  EXPECT_THAT(HowSure(), EndsWith("A has the fewest processes.")) << "all spreads are small";
}

TEST_F(HeadlineTest, GivenTarget_ChoiceIsTheFirstToReachTheTarget) {
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
  EXPECT_EQ(HowSure(), "A takes between 1.39 and 1.62 times as long (95 % confidence, 3 runs of each).");
  reach(ps, 3, Value(3, 5.9, 0.1));
  EXPECT_EQ(Text(),
            "No winner between B (ps_sync) and A (mirrored): 3 runs of each do not show which reaches 85 % "
            "validation accuracy sooner.");
  reach(ps, 3, Value(2, 4, 0.1));
  EXPECT_EQ(Text(),
            "Train with A (mirrored): only A reached 85 % validation accuracy in all of its runs, in 6.00 ± "
            "0.25 s.");
  EXPECT_EQ(HowSure(), "");
  reach(*report_.mutable_variant(0), 3, Value(0, 0));
  EXPECT_EQ(Text(), "No winner: no variant reached 85 % validation accuracy in all of its runs.");
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

TEST_F(HeadlineTest, OneWorkerChoiceAlsoNamesTheBestOfSeveralWorkers) {
  Add("local", 1, Value(3, 5, 0.1), Value(3, 0.87, 0.001));
  Add("ps_sync", 3, Value(3, 20, 0.1), Value(3, 0.87, 0.001));
  Add("mirrored", 3, Value(3, 10, 0.1), Value(3, 0.87, 0.001));
  EXPECT_THAT(Text(),
              HasSubstr("Train with A (local), or with C (mirrored) if several workers must take part: A "
                        "trains 2.00 times as fast as C,"));
}

TEST_F(HeadlineTest, OneWorkerChoiceMayBeSlowerButMoreAccurate) {
  Add("local", 1, Value(3, 20, 0.1), Value(3, 0.88, 0.001));
  Add("mirrored", 3, Value(3, 10, 0.1), Value(3, 0.87, 0.001));
  EXPECT_EQ(
      Text(),
      "Train with A (local) for accuracy, or with B (mirrored) for speed: B trains 2.00 times as fast, but "
      "is 1.00 percentage points less accurate than A.");
}

TEST_F(HeadlineTest, RivalOfAOneWorkerChoiceHasSeveralWorkers) {
  Add("local", 1, Value(3, 5, 0.1), Value(3, 0.87, 0.001));
  Add("ps_sync", 1, Value(3, 8, 0.1), Value(3, 0.87, 0.001));
  Add("mirrored", 3, Value(3, 10, 0.1), Value(3, 0.86, 0.001));
  Add("ps_sync", 3, Value(3, 11, 0.1), Value(3, 0.86, 0.001));
  EXPECT_EQ(
      Text(),
      "Train with A (local), or with C (mirrored) if several workers must take part: A trains 2.00 times "
      "as fast as C, and is 1.00 percentage points more accurate.");
}

TEST_F(HeadlineTest, RivalOfAOneWorkerChoiceReachedTheTarget) {
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
  const Contenders explained = FindingsOf(report_).explained;
  EXPECT_EQ(explained.best->label(), "C");
  EXPECT_EQ(explained.rival->label(), "D");
}

TEST_F(HeadlineTest, NoWinnerIsNamedIfAVariantHasOnlyASingleRun) {
  Add("mirrored", 3, Value(3, 10, 0.1), Value(3, 0.87));
  Add("ps_sync", 3, Value(1, 20), Value(1, 0.87));
  EXPECT_EQ(Text(),
            "No winner yet: A (mirrored) trained in 10.00 ± 0.25 s, B (ps_sync) in 20 s, and a single run "
            "cannot tell a difference from chance.");
  EXPECT_EQ(HowSure(),
            "Single runs do not show which variant is faster. What would decide: three or more runs of each "
            "(tethys compare "
            "--repeats=3).");
}

TEST_F(HeadlineTest, VariantWithASingleRunIsLeftOutBesideRepeatedVariants) {
  Add("mirrored", 3, Value(3, 10, 0.1), Value(3, 0.87, 0.001));
  Add("ps_async", 3, Value(1, 5), Value(1, 0.87)).set_failed(2);
  Add("ps_sync", 3, Value(3, 20, 0.1), Value(3, 0.87, 0.001));
  EXPECT_THAT(Text(), StartsWith("Train with A (mirrored): A trains 2.00 times as fast as C (ps_sync)"));
  EXPECT_THAT(CautionsText(),
              ElementsAre("2 of 9 runs failed", "B has a single successful run and cannot be recommended"));
}

TEST_F(HeadlineTest, SingleVariantHasNoCautionsAboutComparisons) {
  proto::ReportVariant& variant = Add("mirrored", 3, Value(1, 10), Value(1, 0.12));
  variant.set_failed(1);
  variant.set_chance_accuracy(0.1);
  *variant.mutable_others_cpu() = Value(1, 0.2);
  EXPECT_THAT(CautionsText(), ElementsAre("A hardly learned", "other programs took up to 20 % of the CPU"));
}

TEST_F(HeadlineTest, CautionsListFailedRunsBatchesOtherProgramsAndDifferences) {
  proto::ReportVariant& mirrored = Add("mirrored", 3, Value(3, 10, 0.1), Value(3, 0.87));
  proto::ReportVariant& ps = Add("ps_sync", 3, Value(3, 20, 0.1), Value(3, 0.12));
  EXPECT_THAT(CautionsText(), IsEmpty());
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
      CautionsText(),
      ElementsAre("2 of 8 runs failed", "B hardly learned", "the jobs differ in a, b, c and 1 more",
                  "other programs took up to 19 % of the CPU",
                  "global batches differ, and so do the numbers of updates, on which accuracy depends",
                  "all processes shared one computer with 2 cores, so the results say nothing about training "
                  "on several computers"));
}

TEST_F(HeadlineTest, SameNumberOfWorkersOnDifferentNumbersOfMachinesIsACaution) {
  const auto add = [this](const std::string& strategy, std::vector<std::string> hosts) {
    proto::ReportVariant& variant = Add(strategy, 3, Value(3, 10, 0.1), Value(3, 0.87));
    variant.set_workers(static_cast<int>(hosts.size()));
    for (size_t i = 0; i < hosts.size(); ++i) {
      proto::ResourceSummary& line = *variant.mutable_summary()->add_resources();
      line.set_host(hosts[i]);
      line.set_boot_id(hosts[i]);
      line.set_process(absl::StrCat("worker ", i));
    }
  };
  add("mirrored", {"a", "a", "b", "b"});
  add("ps_sync", {"a", "a", "b"});
  EXPECT_THAT(CautionsText(), IsEmpty()) << "other numbers of workers";
  add("ps_sync", {"a", "a", "b", "c"});
  EXPECT_THAT(CautionsText(), ElementsAre("the 4 workers of A ran on 2 machines, the 4 workers of C on 3"));
}

TEST(VariantNameTest, LettersAndIndexAreInverse) {
  EXPECT_EQ(VariantLetters(0), "A");
  EXPECT_EQ(VariantLetters(25), "Z");
  EXPECT_EQ(VariantLetters(26), "AA");
  for (const int index : {0, 25, 26, 701, 702, 5000}) EXPECT_EQ(VariantIndex(VariantLetters(index)), index);
  for (const char* text : {"", "a", "A1", "AAAA"}) EXPECT_FALSE(VariantIndex(text).has_value()) << text;
}

TEST_F(HeadlineTest, MoreMachinesThatAreNotFasterThanOneAreNamed) {
  const auto on = [](proto::ReportVariant& variant, int machines) {
    for (int i = 0; i < machines; ++i) {
      proto::ResourceSummary& line = *variant.mutable_summary()->add_resources();
      line.set_process(absl::StrCat("worker ", i));
      line.set_host(absl::StrCat("node", i));
    }
  };
  on(Add("local", 1, Value(3, 10, 0.1), Value(3, 0.87, 0.001)), 1);
  on(Add("mirrored", 4, Value(3, 10.1, 1), Value(3, 0.87, 0.001)), 4);
  on(Add("mirrored", 8, Value(3, 20, 0.1), Value(3, 0.87, 0.001)), 8);
  EXPECT_THAT(CautionsText(),
              ElementsAre("4 machines (B) are not shown to be faster, 8 machines (C) are slower "
                          "than one machine (A)"));
  *report_.mutable_variant(1)->mutable_seconds() = Value(3, 5, 0.1);
  *report_.mutable_variant(2)->mutable_seconds() = Value(3, 4, 0.1);
  EXPECT_THAT(CautionsText(), IsEmpty());
}

}  // namespace
}  // namespace tethys
