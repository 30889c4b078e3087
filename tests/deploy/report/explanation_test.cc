#include "deploy/report/explanation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_join.h"
#include "deploy/report/prediction_sentence.h"
#include "tests/deploy/report/report_values.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

proto::ReportValue OfThree(double mean, double deviation) { return Value(3, mean, deviation); }

class ExplanationTest : public ::testing::Test {
 protected:
  // Adds a variant. `seconds` is a worker's training time; computing and exchanging are parts of it.
  proto::ReportVariant& Add(const std::string& strategy, double seconds, double compute, double exchange) {
    proto::ReportVariant& variant = *report_.add_variant();
    variant.set_name(strategy + ", 2 workers");
    variant.set_strategy(strategy);
    variant.set_short_name(strategy);
    variant.set_runs(3);
    *variant.mutable_seconds() = OfThree(seconds, 0.1);
    *variant.mutable_step_seconds() = OfThree(compute + exchange, 0.1);
    *variant.mutable_compute_seconds() = OfThree(compute, 0.1);
    *variant.mutable_exchange_seconds() = OfThree(exchange, 0.1);
    *variant.mutable_test_accuracy() = OfThree(0.87, 0.001);
    return variant;
  }
  // Adds a machine with two cores; both loads are in percent of one core.
  static void AddCpu(double busy, double job, const std::string& host, proto::ReportVariant& variant) {
    proto::MachineSeries& machine = *variant.add_machine();
    machine.set_host(host);
    machine.mutable_training()->set_cpu_percent(busy);
    machine.mutable_training()->set_job_cpu_percent(job);
    machine.mutable_training()->set_job_network_mb_per_second(12.5);
    proto::ResourceSummary& line = *variant.mutable_summary()->add_resources();
    line.set_host(host);
    line.set_cores(2);
    line.set_boot_id("one");
  }
  static void AddRank(int rank, double compute_us, proto::ReportVariant& variant) {
    proto::RankTime& time = *variant.add_rank();
    time.set_rank(rank);
    time.set_host("slave1");
    time.set_compute_us(compute_us);
  }
  std::string Text() const { return absl::StrJoin(Explanation(FindingsOf(report_)), " "); }

  proto::Report report_;
};

TEST_F(ExplanationTest, SplitsTrainingTimesAndTheirDifference) {
  Add("mirrored", 10, 6, 3);
  Add("ps_async", 14, 6.5, 6.2);
  EXPECT_THAT(Text(),
              HasSubstr("Of its 10.00 ± 0.25 s of training, a worker of mirrored needed 6.00 ± 0.25 s (60 %) "
                        "to compute (forward and backward), 3.00 ± 0.25 s (30 %) to wait for the exchange"));
  EXPECT_THAT(Text(), HasSubstr("a worker of ps_async needed"));
  EXPECT_THAT(Text(), HasSubstr("a single run of each variant, which the report shows in detail"));
  EXPECT_THAT(Text(), HasSubstr("So the difference of 4 s in training time consists of: computing +0.5 s, "
                                "waiting for the exchange +3.2 s, "
                                "all else +0.3 s."));
}

TEST_F(ExplanationTest, StallsThatTakeAVisibleShare_AreNamed) {
  *Add("mirrored", 10, 6, 1).mutable_record_stall_seconds() = OfThree(0.01, 0);
  *Add("ps_async", 14, 6.5, 1.2).mutable_record_stall_seconds() = OfThree(3, 0.1);
  *report_.mutable_variant(1)->mutable_data_seconds() = OfThree(2, 0.1);
  EXPECT_THAT(Text(), HasSubstr("and 3 s for all else (data, updates, ends of epochs)"));
  EXPECT_THAT(Text(), HasSubstr("2.00 ± 0.25 s (14 %) to get batches of data, 3.00 ± 0.25 s (21 %) to wait "
                                "until the records of its steps were sent to the chief, and 1.3 s for all "
                                "else (updates, ends of epochs)."));
  EXPECT_THAT(Text(), HasSubstr("getting batches of data +2 s, waiting to send records of steps +2.99 s, all "
                                "else -1.69 s."));
}

TEST_F(ExplanationTest, VariantWithoutExchange_IsSaidToWaitNextToNothing) {
  Add("local", 10, 9, 0.001);
  EXPECT_THAT(Text(), HasSubstr("next to nothing to wait for the exchange"));
  EXPECT_THAT(Text(), Not(HasSubstr("moved")));
}

TEST_F(ExplanationTest, TextNamesTheVariantsItExplainsIfTheConclusionIsAboutOthers) {
  Add("local", 5, 4, 0).set_workers(1);
  Add("mirrored", 10, 6, 3).set_workers(2);
  Add("ps_sync", 14, 6.5, 6.2).set_workers(2);
  EXPECT_THAT(Text(),
              StartsWith("These sentences compare mirrored workers with parameter servers, here "
                         "mirrored with ps_sync; the conclusion at the head of the report is about local and "
                         "mirrored. Of its 10.00"));
}

TEST_F(ExplanationTest, ExplainsThePairOfTheAnswerIfOnlyOneStrategyWasRun) {
  *Add("mirrored", 8, 6, 1).mutable_test_accuracy() = OfThree(0.80, 0.001);
  *Add("mirrored", 9, 6, 2).mutable_test_accuracy() = OfThree(0.80, 0.001);
  Add("mirrored", 10, 6, 3);
  for (const int i : {0, 1, 2}) report_.mutable_variant(i)->set_label(std::string(1, "ABC"[i]));
  EXPECT_THAT(Text(), AllOf(StartsWith("Of its 8.00"), HasSubstr("a worker of A needed"),
                            HasSubstr("a worker of C needed"), Not(HasSubstr("worker of B"))));
}

TEST_F(ExplanationTest, SingleRuns_TextNamesTheVariantsItExplainsIfTheConclusionIsAboutOthers) {
  for (const char* strategy : {"local", "ps_sync", "mirrored"}) {
    const double seconds = 5 + 5 * report_.variant_size();
    *Add(strategy, seconds, 4, 1).mutable_seconds() = Value(1, seconds);
  }
  EXPECT_THAT(
      Text(),
      HasSubstr("here ps_sync with mirrored; the conclusion at the head of the report is about local and "
                "ps_sync."));
}

TEST_F(ExplanationTest, DifferenceWithinNoiseIsNotExplained) {
  Add("mirrored", 10, 6, 3);
  Add("ps_async", 10.1, 6.5, 6.2);
  EXPECT_THAT(Text(), AllOf(HasSubstr("within noise"), Not(HasSubstr("So the"))));
}

TEST_F(ExplanationTest, VariantWithoutStepTimesGivesNoExplanation) {
  Add("mirrored", 10, 6, 3).clear_step_seconds();
  Add("ps_async", 14, 6.5, 6.2);
  EXPECT_EQ(Text(), "");
  report_.clear_variant();
  EXPECT_EQ(Text(), "");
}

TEST_F(ExplanationTest, SingleVariantIsExplainedWithoutComparison) {
  Add("mirrored", 10, 6, 3);
  EXPECT_THAT(Text(), AllOf(HasSubstr("a worker of mirrored needed"), Not(HasSubstr("So the"))));
}

TEST_F(ExplanationTest, TextUsesShortNamesOfVariantsIfSet) {
  Add("mirrored", 10, 6, 3);
  Add("ps_async", 12, 6, 5).set_short_name("PS async, 2 servers");
  EXPECT_THAT(Text(), HasSubstr("a worker of PS async, 2 servers needed"));
  report_.mutable_variant(1)->clear_short_name();
  EXPECT_THAT(Text(), HasSubstr("a worker of ps_async, 2 workers needed"));
}

TEST_F(ExplanationTest, NamesBytesMovedAndTheirMedium) {
  proto::ReportVariant& mirrored = Add("mirrored", 10, 6, 3);
  mirrored.mutable_summary()->mutable_communication()->set_bytes_in_per_step(2048);
  mirrored.mutable_summary()->set_exchange("shared memory among 2 workers");
  AddCpu(100, 100, "slave1", mirrored);
  EXPECT_THAT(Text(), Not(HasSubstr("over TCP"))) << "both ends are on one machine";
  AddCpu(100, 100, "slave2", mirrored);
  EXPECT_THAT(Text(), HasSubstr("2 KiB with mirrored, by shared memory among 2 workers (the processes of "
                                "this variant on slave1: 12.5 MB/s over TCP)."));
  mirrored.mutable_summary()->clear_exchange();
  EXPECT_THAT(Text(), HasSubstr("2 KiB with mirrored, by TCP (the processes of this variant on slave1"));
}

TEST_F(ExplanationTest, StalenessIsNotNamedAsCauseOfAccuracy) {
  Add("mirrored", 10, 6, 3).mutable_summary()->set_steps(100);
  proto::ReportVariant& ps = Add("ps_async", 14, 6.5, 6.2);
  ps.mutable_summary()->set_steps(300);
  ps.mutable_summary()->mutable_communication()->set_mean_staleness(2.3);
  ps.mutable_summary()->mutable_communication()->add_staleness()->set_staleness(6);
  EXPECT_THAT(Text(), AllOf(HasSubstr("2.3 updates old on average, 6 at most"), Not(HasSubstr("accuracy"))));
  *ps.mutable_test_accuracy() = OfThree(0.8, 0.001);
  EXPECT_THAT(
      Text(),
      HasSubstr(
          "is not measured: the number of updates differs, too (100 with mirrored, 300 with ps_async)"));
}

TEST_F(ExplanationTest, SlowWorkerIsNamedIfOthersWaitForIt) {
  proto::ReportVariant& mirrored = Add("mirrored", 10, 6, 3);
  proto::ReportVariant& ps = Add("ps_async", 14, 6.5, 6.2);
  for (proto::ReportVariant* variant : {&mirrored, &ps}) {
    AddRank(0, 100, *variant);
    AddRank(1, 200, *variant);
    AddRank(2, 110, *variant);
  }
  EXPECT_THAT(Text(), HasSubstr("With mirrored the other workers waited for worker 1 on slave1"));
  EXPECT_THAT(Text(), Not(HasSubstr("With ps async the others")));
}

TEST_F(ExplanationTest, GradientNoisePredictsTheStepsNeededWithTwiceTheBatch) {
  proto::ReportVariant& mirrored = Add("mirrored", 10, 6, 3);
  mirrored.set_global_batch(100);
  for (const double samples : {0.0, 50.0, 300.0, 0.0}) {
    proto::GradientNoise& noise = *mirrored.mutable_summary()->add_gradient_noise();
    noise.set_epoch(mirrored.summary().gradient_noise_size() - 1);
    if (samples > 0) noise.set_samples(samples);
  }
  EXPECT_THAT(Text(),
              HasSubstr("was 50 samples in epoch 2 and 300 in epoch 3, with batches of 100: according to the "
                        "latter value, twice the batch would need 0.62 times as many steps"));
}

TEST_F(ExplanationTest, TextSaysWhyTheGradientNoiseScaleIsUnknown) {
  Add("local", 10, 6, 3).set_workers(1);
  Add("ps_async", 14, 6, 3).set_workers(3);
  EXPECT_THAT(
      Text(),
      AllOf(HasSubstr(
                "scale of local is unknown: measuring this scale requires the gradients of several workers"),
            HasSubstr("scale of ps_async is unknown: the gradients were computed from different versions")));
  report_.mutable_variant(1)->set_strategy("ps_stale_3");
  report_.mutable_variant(1)->set_short_name("ps_stale_3");
  EXPECT_THAT(
      Text(),
      HasSubstr("scale of ps_stale_3 is unknown: the gradients were computed from different versions"));
  report_.clear_variant();
  proto::ReportVariant& few = Add("mirrored", 10, 6, 3);
  few.set_workers(2);
  few.mutable_summary()->add_gradient_noise();
  Add("ps_sync", 14, 6, 3).set_workers(2);
  EXPECT_THAT(
      Text(),
      AllOf(HasSubstr("scale of mirrored is unknown: too few steps were measured to distinguish"),
            HasSubstr("scale of ps_sync is unknown: GPUs and older builds do not measure this scale")));
}

TEST_F(ExplanationTest, TextNamesMachinesWithAFullCpuAndTheShareOfOtherPrograms) {
  AddCpu(198, 120, "slave1", Add("mirrored", 10, 6, 3));
  AddCpu(100, 90, "slave1", Add("ps_async", 14, 6.5, 6.2));
  EXPECT_THAT(Text(), HasSubstr("99 % of the 2 cores of slave1 with mirrored, so this machine is at its "
                                "limit (other programs took 39 %"));
  EXPECT_THAT(Text(),
              HasSubstr("and 50 % of the 2 cores of slave1 with ps_async. All times are wall-clock times"));
}

TEST_F(ExplanationTest, MachinesOfOneComputerShareItsCores) {
  proto::ReportVariant& mirrored = Add("mirrored", 10, 6, 3);
  AddCpu(160, 75, "slave1", mirrored);
  AddCpu(160, 75, "slave2", mirrored);
  EXPECT_THAT(Text(), AllOf(HasSubstr("80 % of the 2 cores"), Not(HasSubstr("other programs")),
                            Not(HasSubstr("clock"))));
  EXPECT_THAT(Text(), HasSubstr("`tethys hosts check`"));
}

TEST_F(ExplanationTest, PredictedRatesStandBesideMeasuredRates) {
  EXPECT_EQ(PredictionSentence(report_), "");
  for (const auto& [name, measured] : {std::pair{"mirrored", 1050.0}, {"ps_sync", 1600.0}}) {
    proto::RunSummary& summary = *Add(name, 3, 1, 1).mutable_summary();
    summary.mutable_timing()->set_samples_per_second(measured);
    proto::Estimate& rate = *summary.mutable_prediction()->mutable_samples_per_second();
    rate.set_value(1000);
    rate.set_low(900);
    rate.set_high(1100);
  }
  EXPECT_EQ(PredictionSentence(report_),
            "Samples a second, as predicted before the start with 90 % intervals: "
            "ps_sync: predicted 1,000 (900 to 1,100), measured 1,600, outside the interval; mirrored: "
            "predicted 1,000 (900 to 1,100), measured 1,050.");
}

}  // namespace
}  // namespace tethys
