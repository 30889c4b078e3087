#include "deploy/report/reason.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deploy/report/variant_name.h"
#include "tests/deploy/report/report_values.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ReasonTest : public ::testing::Test {
 protected:
  // Adds a variant of three runs. `seconds` is a worker's training time; computing and exchanging are parts
  // of that time.
  proto::ReportVariant& Add(const std::string& strategy, int workers, double seconds, double compute,
                            double exchange) {
    proto::ReportVariant& variant = *report_.add_variant();
    variant.set_label(VariantLetters(report_.variant_size() - 1));
    variant.set_strategy(strategy);
    variant.set_workers(workers);
    variant.set_runs(3);
    *variant.mutable_seconds() = Value(3, seconds, 0.1);
    *variant.mutable_step_seconds() = Value(3, compute + exchange, 0.1);
    *variant.mutable_compute_seconds() = Value(3, compute, 0.1);
    *variant.mutable_exchange_seconds() = Value(3, exchange, 0.1);
    *variant.mutable_test_accuracy() = Value(3, 0.87, 0.001);
    return variant;
  }
  // Adds a computer with two cores, of which `busy` cores were busy.
  static void AddCpu(double busy, const std::string& host, proto::ReportVariant& variant) {
    proto::MachineSeries& machine = *variant.add_machine();
    machine.set_host(host);
    machine.mutable_training()->set_cpu_percent(100 * busy);
    machine.mutable_training()->set_job_cpu_percent(100 * busy);
    proto::ResourceSummary& line = *variant.mutable_summary()->add_resources();
    line.set_host(host);
    line.set_cores(2);
  }
  std::string Text() const { return Reason(report_, FindingsOf(report_)); }

  proto::Report report_;
};

TEST_F(ReasonTest, TextNamesSharesLimitsAndMainCauseOfTheTimeDifference) {
  Add("ps_sync", 3, 17, 6, 10);
  Add("mirrored", 3, 10, 7, 2);
  EXPECT_EQ(
      Text(),
      "A worker of B computes for 70 % of its training time and waits 20 % for the exchange, one of A "
      "for 35 % and 59 %, so B is limited by computing and A by the exchange. A takes 7 s longer, because it "
      "waits 8 s more for the exchange.");
}

TEST_F(ReasonTest, FewerWorkersComputeLonger) {
  Add("local", 1, 10, 9, 0);
  Add("mirrored", 2, 6, 5, 1);
  EXPECT_THAT(Text(),
              EndsWith("A takes 4 s longer, because it computes 4 s more: fewer workers share the samples."));
}

TEST_F(ReasonTest, LocalTrainingExchangesNothing) {
  Add("local", 1, 5, 4.8, 0);
  Add("mirrored", 2, 8, 4.9, 1);
  EXPECT_THAT(Text(),
              StartsWith("The worker of A computes for 96 % of its training time and exchanges "
                         "nothing; a worker of B computes for 61 % and waits 12 % for the exchange, so "
                         "both are limited by computing."));
  EXPECT_THAT(
      Text(),
      EndsWith("None of these parts alone accounts for most of the 3 s by which the training times differ."));
}

TEST_F(ReasonTest, LimitIsNamedOnlyWhereOnePartTakesMostOfTheTime) {
  Add("mirrored", 2, 10, 7, 2);
  proto::ReportVariant& ps = Add("ps_sync", 2, 15, 6, 6);
  EXPECT_THAT(Text(),
              HasSubstr("one of B for 40 % and 40 %, so A is limited by computing. B takes 5 s longer"));
  *ps.mutable_data_seconds() = Value(3, 9, 0.1);
  EXPECT_THAT(Text(),
              HasSubstr("waits 0 % for data and 20 % for the exchange, one of B for 40 %, 60 % and "
                        "40 %, so A is limited by computing and B by data. B takes 5 s longer, because it "
                        "waits 9 s more for data."));
}

TEST_F(ReasonTest, TieOfTheFastestVariantsGivesNoReason) {
  Add("mirrored", 2, 10, 7, 2);
  Add("ps_sync", 2, 10.01, 7, 2);
  Add("ps_stale_3", 2, 16, 7, 8.5);
  EXPECT_EQ(Text(), "");
}

TEST_F(ReasonTest, DifferenceOfTimesWithinNoiseIsNotExplained) {
  *Add("mirrored", 2, 10, 7, 2).mutable_test_accuracy() = Value(3, 0.90, 0.001);
  Add("ps_sync", 2, 10.01, 7, 2);
  EXPECT_EQ(Text(), "");
  report_.mutable_variant(0)->set_normalised_samples(64);
  report_.mutable_variant(1)->set_normalised_samples(32);
  EXPECT_EQ(
      Text(),
      "Why B is less accurate was not measured; it may be that batch normalisation takes its statistics "
      "over 32 samples where A takes them over 64.");
  report_.mutable_variant(1)->set_normalised_samples(0);
  EXPECT_EQ(Text(), "") << "one model has no such layer";
}

TEST_F(ReasonTest, UnequalComputingTimesGiveNoStatementOfTheLimit) {
  for (const char* strategy : {"mirrored", "ps_sync"}) {
    proto::ReportVariant& variant = Add(strategy, 2, report_.variant().empty() ? 10 : 20, 1, 9);
    *variant.mutable_samples_per_second() = Value(3, 20000 / variant.seconds().mean());
  }
  EXPECT_THAT(Text(), HasSubstr("so A is limited by the exchange"));
  *report_.mutable_variant(1)->mutable_compute_seconds() = Value(3, 9.6, 0.1);
  EXPECT_THAT(
      Text(),
      EndsWith("These are wall-clock times, and computing took 100 µs a sample with A and 960 µs with B: the "
               "times may include waiting for a core, so they do not show what limits either "
               "variant."));
  *report_.mutable_variant(1)->mutable_compute_seconds() = Value(3, 1, 0.1);
  *report_.mutable_variant(1)->mutable_others_cpu() = Value(3, 0.3);
  EXPECT_THAT(Text(),
              AllOf(HasSubstr("and other programs took a part of the CPU:"), Not(HasSubstr("limited by"))));
}

TEST_F(ReasonTest, SingleRunsAreDescribedButNotCompared) {
  Add("mirrored", 2, 10, 7, 2);
  Add("ps_sync", 2, 15, 6, 8);
  for (proto::ReportVariant& variant : *report_.mutable_variant()) variant.mutable_seconds()->set_count(1);
  EXPECT_THAT(Text(), AllOf(StartsWith("A worker of A computes for 70 %"), Not(HasSubstr("between them"))));
}

TEST_F(ReasonTest, FullCpu_MoreWorkersOnOneComputerAreCalledUseless) {
  proto::ReportVariant& local = Add("local", 1, 5, 4.8, 0);
  proto::ReportVariant& mirrored = Add("mirrored", 2, 8, 4.9, 1);
  AddCpu(1.9, "one", local);
  EXPECT_THAT(Text(), Not(HasSubstr("CPU"))) << "not known for both";
  AddCpu(1.98, "one", mirrored);
  EXPECT_THAT(Text(), EndsWith("CPU in use: 95 % of 2 cores with A, 99 % with B, so more workers on this "
                               "computer cannot compute faster."));
  local.mutable_machine(0)->mutable_training()->set_job_cpu_percent(150);
  EXPECT_THAT(Text(), EndsWith("99 % with B.")) << "other programs fill it, too";
  AddCpu(1.0, "two", mirrored);
  EXPECT_THAT(Text(), EndsWith("CPU in use on the busiest computer: 95 % of 2 cores with A, 99 % with B."));
  mirrored.mutable_machine()->RemoveLast();
  local.mutable_machine(0)->mutable_training()->set_cpu_percent(100);
  EXPECT_THAT(Text(), EndsWith("CPU in use: 50 % of 2 cores with A, 99 % with B."));
}

TEST_F(ReasonTest, StalenessIsNamedAsPossibleCauseOfLowerAccuracy) {
  proto::ReportVariant& ps = Add("ps_async", 2, 8, 7, 0.5);
  Add("mirrored", 2, 10, 7, 2);
  *ps.mutable_staleness() = Value(3, 1.9, 0.1);
  EXPECT_THAT(Text(), Not(HasSubstr("old")));
  *ps.mutable_test_accuracy() = Value(3, 0.86, 0.001);
  EXPECT_THAT(Text(), EndsWith("Why A is less accurate was not measured; it may be that its gradients were "
                               "computed from parameters that were 1.9 updates old on average."));
  proto::JobDifference& rate = *report_.add_difference();
  rate.set_field("optimizer.learning_rate");
  for (const char* value : {"0.1", "0.05"}) rate.add_value(value);
  EXPECT_THAT(Text(),
              EndsWith("updates old on average or that their jobs differ in optimizer.learning_rate."));
}

TEST_F(ReasonTest, TimeToTargetIsExplainedByEpochsToTarget) {
  report_.mutable_target()->set_accuracy(0.85);
  report_.mutable_target()->set_given(true);
  double epochs = 3;
  for (const char* strategy : {"mirrored", "ps_sync"}) {
    proto::TimeToTarget& reached = *Add(strategy, 2, 10, 7, 2).mutable_to_target();
    reached.set_runs(3);
    reached.set_reached(3);
    *reached.mutable_seconds() = Value(3, epochs, 0.1);
    *reached.mutable_epochs() = Value(3, epochs);
    epochs += 2;
  }
  EXPECT_THAT(Text(), StartsWith("To reach 85 % validation accuracy A needs 3 epochs, B 5. A worker of A"));
}

TEST_F(ReasonTest, VariantWithoutMeasuredStepsGivesNoReason) {
  EXPECT_EQ(Text(), "");
  Add("mirrored", 2, 10, 7, 2).clear_step_seconds();
  Add("ps_sync", 2, 15, 6, 8);
  EXPECT_EQ(Text(), "");
}

}  // namespace
}  // namespace tethys
