// Tests the comparison of a run with its prediction, and the reasons given for differences.
#include "deploy/live/prediction_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tethys {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Two workers in lock step, with batches of 50 samples each. Predicted is a step of 10 ms: 6 ms of computing,
// 1 ms of overhead and 3 ms of exchange that does not overlap with computing.
class PredictionCheckTest : public ::testing::Test {
 protected:
  PredictionCheckTest() {
    proto::Estimate& rate = *expectation_.mutable_prediction()->mutable_samples_per_second();
    rate.set_value(10'000);
    rate.set_low(9'000);
    rate.set_high(11'000);
    AddBound("compute on slave1", 0.006);
    AddBound("overhead", 0.001);
    AddBound("link of slave1", 0.005);
    expectation_.set_batch_per_worker(50);
    expectation_.set_lock_step(true);
  }
  void AddBound(const char* resource, double seconds) {
    proto::Bound& bound = *expectation_.mutable_prediction()->add_bound();
    bound.set_resource(resource);
    bound.set_seconds(seconds);
  }
  // The compute time is the same for both workers.
  static StepFigures Figures(double step, double compute, double exchange) {
    return {.step = step,
            .workers = 2,
            .median_compute = compute,
            .slowest_compute = compute,
            .median_exchange = exchange,
            .least_exchange = exchange};
  }
  void AddWorker(const char* health, double ratio, double out_share = 0) {
    proto::LiveTask& task = *state_.add_task();
    task.mutable_pulse()->set_role("worker");
    task.mutable_pulse()->set_index(state_.task_size() - 1);
    task.mutable_pulse()->set_host("slave" + std::to_string(state_.task_size()));
    task.set_health(health);
    task.set_compute_ratio(ratio);
    task.set_out_share(out_share);
  }
  std::string Text(const StepFigures& figures) const {
    const auto comparison = CompareWithPrediction(expectation_, figures, state_);
    return comparison.has_value() ? comparison->text() : "";
  }

  proto::Expectation expectation_;
  proto::LiveState state_;
};

TEST_F(PredictionCheckTest, NoReasonIsNamedForARunWithinThePredictedInterval) {
  const auto comparison = CompareWithPrediction(expectation_, Figures(0.0104, 0.0064, 0.003), state_);
  ASSERT_TRUE(comparison.has_value());
  EXPECT_TRUE(comparison->within());
  EXPECT_NEAR(comparison->measured(), 9615, 1);
  EXPECT_EQ(comparison->text(), "As predicted: 9,615 samples/s, predicted 10,000 (9,000 to 11,000)");
}

TEST_F(PredictionCheckTest, NoReasonIsNamedForARunFasterThanPredicted) {
  EXPECT_EQ(Text(Figures(0.008, 0.004, 0.003)),
            "25 % faster than predicted: 12,500 samples/s, predicted 10,000 (9,000 to 11,000)");
}

TEST_F(PredictionCheckTest, LongerComputingIsNamedAsReasonTogetherWithOtherPrograms) {
  StepFigures figures = Figures(0.02, 0.015, 0.003);
  EXPECT_THAT(Text(figures), HasSubstr(", because computing takes 15 ms a step instead of 6 ms"));
  EXPECT_THAT(Text(figures), Not(HasSubstr("other programs")));
  figures.others_cpu = 0.35;
  figures.others_host = "slave2";
  EXPECT_THAT(Text(figures), HasSubstr(", while other programs use 35 % of the CPU of slave2"));
}

TEST_F(PredictionCheckTest, SlowWorkerIsNamedInsteadOfComputing) {
  AddWorker("ok", 1);
  AddWorker("slow", 1.5);
  EXPECT_THAT(Text(Figures(0.02, 0.015, 0.003)),
              HasSubstr(", because worker 1 on slave2 computes 1.5 times as long as the median of all"));
}

TEST_F(PredictionCheckTest, SlowWorkerThatExplainsLittleIsNotNamed) {
  AddWorker("ok", 1);
  AddWorker("slow", 1.3);
  const std::string text = Text(Figures(0.02, 0.0065, 0.012));
  EXPECT_THAT(text, Not(HasSubstr("worker 1")));
  EXPECT_THAT(text, HasSubstr(", because the exchange takes 12 ms a step instead of 3 ms"));
}

TEST_F(PredictionCheckTest, FullLinkIsNamedWithTheExchange) {
  AddWorker("ok", 1, 0.5);
  AddWorker("ok", 1, 0.97);
  EXPECT_THAT(Text(Figures(0.02, 0.006, 0.013)),
              HasSubstr("instead of 3 ms, and the link of slave2 is full"));
}

TEST_F(PredictionCheckTest, NoReasonIsNamedIfThePartsDoNotExplainTheStep) {
  EXPECT_EQ(Text(Figures(0.02, 0.0065, 0.0035)),
            "50 % slower than predicted: 5,000 samples/s, predicted 10,000 (9,000 to 11,000)");
}

TEST_F(PredictionCheckTest, SlowWorkerOfAnAsynchronousRunExplainsOnlyItsOwnLossOfThroughput) {
  expectation_.set_lock_step(false);
  AddWorker("ok", 1);
  AddWorker("slow", 2);
  // The mean step is 12.5 ms instead of 10 ms, so the rate is a fifth lower. If one of the two workers has
  // half its rate, the rate of both together is a quarter lower.
  StepFigures figures = Figures(0.0125, 0.006, 0.003);
  EXPECT_THAT(Text(figures), HasSubstr(", because worker 1 on slave2 computes 2.0 times as long"));
  // If one of ten workers has half its rate, the rate of all ten together is a twentieth lower.
  figures.workers = 10;
  expectation_.mutable_prediction()->mutable_samples_per_second()->set_value(50'000);
  expectation_.mutable_prediction()->mutable_samples_per_second()->set_low(45'000);
  expectation_.mutable_prediction()->mutable_samples_per_second()->set_high(55'000);
  EXPECT_THAT(Text(figures), HasSubstr("20 % slower"));
  EXPECT_THAT(Text(figures), Not(HasSubstr("because")));
}

TEST_F(PredictionCheckTest, RunWithoutWorkersIsNotCompared) {
  StepFigures figures = Figures(0.02, 0.006, 0.003);
  figures.workers = 0;
  EXPECT_EQ(Text(figures), "");
}

}  // namespace
}  // namespace tethys
