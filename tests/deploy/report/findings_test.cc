#include "deploy/report/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "deploy/report/variant_name.h"
#include "tests/deploy/report/report_values.h"

namespace tethys {
namespace {

using ::testing::IsEmpty;

std::string LabelOf(const proto::ReportVariant* variant) {
  return variant == nullptr ? "-" : variant->label();
}

std::string LabelsOf(const Ranking& variants) {
  std::string labels;
  for (const proto::ReportVariant* variant : variants) labels += LabelOf(variant);
  return labels;
}

std::string NameOf(AnswerKind kind) {
  switch (kind) {
    case AnswerKind::kNothingToCompare:
      return "nothing to compare";
    case AnswerKind::kSingleRuns:
      return "single runs";
    case AnswerKind::kNotReached:
      return "not reached";
    case AnswerKind::kTie:
      return "tie";
    case AnswerKind::kOnlyReached:
      return "only reached";
    case AnswerKind::kSooner:
      return "sooner";
    case AnswerKind::kFaster:
      return "faster";
    case AnswerKind::kMoreAccurate:
      return "more accurate";
    case AnswerKind::kForAccuracy:
      return "for accuracy";
  }
  return "";
}

// Adds variants A, B, ... of three runs each and writes the findings as text.
class FindingsTest : public ::testing::Test {
 protected:
  proto::ReportVariant& Add(const std::string& strategy, int workers, double seconds, double accuracy = 0.87,
                            int runs = 3) {
    proto::ReportVariant& variant = *report_.add_variant();
    variant.set_label(VariantLetters(report_.variant_size() - 1));
    variant.set_strategy(strategy);
    variant.set_workers(workers);
    variant.set_runs(runs);
    *variant.mutable_seconds() = Value(runs, seconds, runs > 1 ? 0.1 : 0);
    *variant.mutable_test_accuracy() = Share(runs, accuracy, runs > 1 ? 0.001 : 0);
    return variant;
  }
  // Sets a target that the user gave. Of the variant's three runs, `reached` runs reached the target in
  // `seconds`.
  void SetTarget(proto::ReportVariant& variant, int reached, double seconds) {
    report_.mutable_target()->set_accuracy(0.85);
    report_.mutable_target()->set_given(true);
    variant.mutable_to_target()->set_runs(3);
    variant.mutable_to_target()->set_reached(reached);
    if (reached > 0) *variant.mutable_to_target()->mutable_seconds() = Value(reached, seconds, 0.1);
  }
  // The findings as text: "KIND: CHOICE against RIVAL, eligible E, tied T", and ", several S" if `several` is
  // not empty.
  std::string Answer() const {
    const Findings findings = FindingsOf(report_);
    return absl::StrCat(
        NameOf(findings.kind), ": ", LabelOf(findings.choice), " against ", LabelOf(findings.rival),
        ", eligible ", LabelsOf(findings.eligible), ", tied ", LabelsOf(findings.tied),
        findings.several.empty() ? "" : absl::StrCat(", several ", LabelsOf(findings.several)));
  }

  proto::Report report_;
};

TEST_F(FindingsTest, OneVariantWithSuccessfulRunsIsNotCompared) {
  EXPECT_EQ(Answer(), "nothing to compare: - against -, eligible , tied ");
  Add("mirrored", 3, 10);
  Add("ps_sync", 3, 0, 0, /*runs=*/0);
  EXPECT_EQ(Answer(), "nothing to compare: - against -, eligible , tied ");
  EXPECT_EQ(LabelOf(FindingsOf(report_).pair.best), "A");
}

TEST_F(FindingsTest, NoVariantIsChosenIfOneHasASingleRun) {
  Add("mirrored", 3, 10);
  Add("ps_sync", 3, 20, 0.87, /*runs=*/1);
  EXPECT_EQ(Answer(), "single runs: - against -, eligible , tied ");
  EXPECT_EQ(LabelOf(FindingsOf(report_).base), "A");
}

TEST_F(FindingsTest, FasterVariantOfEqualAccuracyIsChosen) {
  Add("ps_sync", 3, 17);
  Add("mirrored", 3, 10);
  EXPECT_EQ(Answer(), "faster: B against A, eligible BA, tied B");
  const Findings findings = FindingsOf(report_);
  EXPECT_DOUBLE_EQ(findings.ratio.value, 1.7);
  EXPECT_EQ(findings.runs.fewest, 3);
  EXPECT_EQ(LabelOf(findings.slower), "A");
  EXPECT_EQ(LabelOf(findings.faster), "-");
  EXPECT_TRUE(findings.fastest_alone);
}

TEST_F(FindingsTest, FasterVariantThatIsLessAccurateIsNotEligible) {
  Add("mirrored", 3, 10, 0.80);
  Add("ps_sync", 3, 20, 0.87);
  EXPECT_EQ(Answer(), "for accuracy: B against A, eligible B, tied B");
  const Findings findings = FindingsOf(report_);
  EXPECT_DOUBLE_EQ(findings.ratio.value, 2) << "the choice's time by the rival's";
  EXPECT_EQ(LabelOf(findings.most_accurate), "B");
  EXPECT_EQ(LabelOf(findings.accuracy_leader.variant), "B");
  EXPECT_TRUE(findings.accuracy_leader.alone);
}

TEST_F(FindingsTest, EquallyFastButMoreAccurateVariantIsChosen) {
  Add("mirrored", 3, 10, 0.80);
  Add("ps_sync", 3, 10.01, 0.87);
  EXPECT_EQ(Answer(), "more accurate: B against A, eligible B, tied B");
  EXPECT_EQ(LabelOf(FindingsOf(report_).better), "B");
}

TEST_F(FindingsTest, TieContainsVariantsThatAreNotShownToBeSlower) {
  Add("mirrored", 3, 10).set_servers(0);
  Add("ps_sync", 3, 10.05).set_servers(1);
  Add("ps_async", 3, 30);
  EXPECT_EQ(Answer(), "tie: A against B, eligible ABC, tied AB");
  const Findings findings = FindingsOf(report_);
  EXPECT_EQ(LabelOf(findings.slower), "C");
  EXPECT_EQ(LabelOf(findings.tie.fewest_processes), "A");
  EXPECT_EQ(LabelOf(findings.tie.steadiest), "-") << "both scatter alike";
  EXPECT_EQ(LabelOf(findings.tie.accuracy.best), "-");
  EXPECT_LT(findings.tie.times.low, 1);
  EXPECT_GT(findings.tie.times.high, 1);
  EXPECT_FALSE(findings.fastest_alone);
}

TEST_F(FindingsTest, OneWorkerIsComparedWithTheBestOfSeveralWorkers) {
  Add("local", 1, 5);
  Add("ps_sync", 1, 8);
  Add("mirrored", 3, 10);
  Add("ps_sync", 3, 10.05);
  EXPECT_EQ(Answer(), "faster: A against C, eligible ABCD, tied A, several CD");
}

TEST_F(FindingsTest, OnlyVariantsThatAlwaysReachedAGivenTargetAreEligible) {
  SetTarget(Add("mirrored", 3, 10), 3, 8);
  EXPECT_EQ(Answer(), "nothing to compare: - against -, eligible , tied ");
  SetTarget(Add("ps_sync", 3, 5), 2, 4);
  EXPECT_EQ(Answer(), "only reached: A against -, eligible A, tied A");
  SetTarget(Add("ps_async", 3, 7), 3, 9);
  EXPECT_EQ(Answer(), "sooner: A against C, eligible AC, tied A");
  EXPECT_TRUE(FindingsOf(report_).first_reached_alone);
  EXPECT_EQ(LabelOf(FindingsOf(report_).reached_next), "C");
  for (proto::ReportVariant& variant : *report_.mutable_variant()) SetTarget(variant, 2, 4);
  EXPECT_EQ(Answer(), "not reached: - against -, eligible , tied ");
}

TEST_F(FindingsTest, CheapestIsUnknownUnlessTheCostOfAllIsKnown) {
  *Add("mirrored", 3, 10).mutable_cost() = Value(3, 0.5, 0.001);
  proto::ReportVariant& other = Add("ps_sync", 3, 20);
  EXPECT_EQ(LabelsOf(FindingsOf(report_).cheapest), "");
  *other.mutable_cost() = Value(3, 0.4, 0.001);
  EXPECT_EQ(LabelsOf(FindingsOf(report_).cheapest), "B");
  *other.mutable_cost() = Value(3, 0.4, 0.2);
  EXPECT_EQ(LabelsOf(FindingsOf(report_).cheapest), "BA");
  *other.mutable_cost() = Value(1, 0.4);
  EXPECT_TRUE(FindingsOf(report_).cost_of_one_run);
}

TEST_F(FindingsTest, ExplanationComparesMirroredWithParameterServersEvenIfLocalIsFastest) {
  Add("local", 1, 5);
  Add("mirrored", 3, 8);
  Add("ps_async", 3, 9);
  const Findings findings = FindingsOf(report_);
  EXPECT_EQ(LabelOf(findings.pair.best), "A");
  EXPECT_EQ(LabelOf(findings.pair.rival), "B");
  EXPECT_EQ(LabelOf(findings.explained.best), "B");
  EXPECT_EQ(LabelOf(findings.explained.rival), "C");
  EXPECT_EQ(LabelsOf(findings.answered), "AB");
}

TEST_F(FindingsTest, DifferenceInBatchIgnoresVariantsWithoutASuccessfulRun) {
  Add("mirrored", 3, 10).set_global_batch(128);
  Add("ps_sync", 3, 20).set_global_batch(128);
  Add("ps_async", 3, 0, 0, /*runs=*/0).set_global_batch(64);
  EXPECT_FALSE(FindingsOf(report_).batches_differ);
  report_.mutable_variant(1)->set_global_batch(64);
  EXPECT_TRUE(FindingsOf(report_).batches_differ);
}

TEST_F(FindingsTest, VariantWithAccuracyNearChanceHasHardlyLearned) {
  Add("mirrored", 3, 10, 0.15).set_chance_accuracy(0.1);
  Add("ps_sync", 3, 20).set_chance_accuracy(0.1);
  EXPECT_EQ(LabelsOf(FindingsOf(report_).hardly_learned), "A");
  EXPECT_TRUE(IsAtChance(0.54, 0.5));
  EXPECT_FALSE(IsAtChance(0.6, 0.5));
  EXPECT_FALSE(IsAtChance(0.05, 0.01)) << "five times as often right as a guess among a hundred";
  EXPECT_THAT(FindingsOf(proto::Report()).hardly_learned, IsEmpty());
}

}  // namespace
}  // namespace tethys
