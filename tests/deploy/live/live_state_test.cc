// The state that the live view shows, from events, and its metrics.
#include "deploy/live/live_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class LiveStateTest : public ::testing::Test {
 protected:
  void Listening() {
    proto::ProgressEvent event;
    event.mutable_listening();
    fold_.Add(event);
  }
  void Progress(int64_t step, double loss) {
    proto::ProgressEvent event;
    event.mutable_progress()->set_step(step);
    event.mutable_progress()->set_loss(loss);
    event.mutable_progress()->set_epoch_samples_done(1);
    fold_.Add(event);
  }
  // A pulse of workers with these compute times; 0: the worker made no step.
  void Pulse(double seconds, const std::vector<double>& compute, double out_rate = 0) {
    fold_.Add(PulseOf(seconds, compute, out_rate));
  }
  static proto::ProgressEvent PulseOf(double seconds, const std::vector<double>& compute,
                                      double out_rate = 0) {
    proto::ProgressEvent event;
    event.mutable_pulse()->set_seconds(seconds);
    for (const double time : compute) {
      proto::TaskPulse& task = *event.mutable_pulse()->add_task();
      task.set_role("worker");
      task.set_index(event.pulse().task_size() - 1);
      task.set_host("slave1");
      task.set_state(proto::TaskPulse::RUNNING);
      task.set_network_out_bytes_per_second(out_rate);
      if (time > 0) task.mutable_compute_seconds()->set_median(time);
    }
    return event;
  }
  std::vector<std::string> Health() const {
    std::vector<std::string> found;
    for (const proto::LiveTask& task : fold_.state().task()) found.push_back(task.health());
    return found;
  }
  std::vector<int64_t> CurveSteps() const {
    std::vector<int64_t> steps;
    for (const proto::CurvePoint& point : fold_.state().curve()) steps.push_back(point.step());
    return steps;
  }
  LiveFold fold_;
};

TEST_F(LiveStateTest, WorkerFarAboveMedianIsSlowAfterTwentySeconds) {
  Pulse(1, {1, 1, 1.3});
  Pulse(20, {1, 1, 1.3});
  EXPECT_THAT(Health(), ElementsAre("ok", "ok", "ok"));
  Pulse(21, {1, 1, 1.3});
  EXPECT_THAT(Health(), ElementsAre("ok", "ok", "slow"));
  Pulse(22, {1, 1, 1.1});
  Pulse(23, {1, 1, 1.3});
  EXPECT_THAT(Health(), ElementsAre("ok", "ok", "ok"));
}

TEST_F(LiveStateTest, PulseWithoutStepsKeepsEarlierTimes) {
  Pulse(1, {1, 1, 2});
  Pulse(15, {1, 1, 0});
  Pulse(30, {1, 1, 0});
  EXPECT_THAT(Health(), ElementsAre("ok", "ok", "slow"));
  EXPECT_EQ(fold_.state().task(2).compute_ratio(), 2);
}

TEST_F(LiveStateTest, BytesAreSummedFromRatesButNotOverLongGaps) {
  Pulse(1, {1}, 100);
  Pulse(3, {1}, 50);
  EXPECT_EQ(fold_.state().task(0).bytes_out(), 200);
  Pulse(1000, {1}, 50);
  EXPECT_EQ(fold_.state().task(0).bytes_out(), 200);
}

TEST_F(LiveStateTest, BeginOfEpochKeepsLastLoss) {
  Progress(10, 0.5);
  proto::ProgressEvent event;
  event.mutable_progress()->set_step(10);
  event.mutable_progress()->set_epoch(1);
  fold_.Add(event);
  EXPECT_EQ(fold_.state().progress().loss(), 0.5);
  EXPECT_EQ(fold_.state().progress().epoch(), 1);
  EXPECT_THAT(CurveSteps(), ElementsAre(10));
}

TEST_F(LiveStateTest, ResumedAttemptReplacesWhatItRepeats) {
  for (const int64_t step : {10, 20, 30}) Progress(step, 1);
  Pulse(5, {1, 1});
  Listening();
  EXPECT_EQ(fold_.state().task_size(), 0);
  Progress(20, 2);
  EXPECT_THAT(CurveSteps(), ElementsAre(10, 20));
  EXPECT_EQ(fold_.state().curve(1).loss(), 2);
}

TEST_F(LiveStateTest, LongCurveIsThinnedAndKeepsItsEnds) {
  for (int64_t step = 1; step <= 100'000; ++step) Progress(step, 1);
  EXPECT_LE(fold_.state().curve_size(), LiveFold::kMostPoints);
  EXPECT_GE(fold_.state().curve_size(), LiveFold::kMostPoints / 2);
  EXPECT_EQ(CurveSteps().front(), 1);
  EXPECT_EQ(CurveSteps().back(), 100'000);
}

TEST_F(LiveStateTest, RunIsComparedWithItsExpectation) {
  proto::Expectation expectation;
  proto::Estimate& rate = *expectation.mutable_prediction()->mutable_samples_per_second();
  rate.set_value(100);
  rate.set_low(90);
  rate.set_high(110);
  expectation.set_batch_per_worker(10);
  proto::LinkRate& link = *expectation.add_link();
  link.set_host("slave1");
  link.set_bytes_per_second(400);
  fold_.Expect(expectation);
  for (int at = 1; at <= 10; ++at) {
    proto::ProgressEvent event = PulseOf(at, {0.1, 0.1}, 100);
    event.mutable_pulse()->add_step_bucket(10 * at);
    event.mutable_pulse()->set_step_seconds_sum(0.25 * 10 * at);
    fold_.Add(event);
  }
  EXPECT_THAT(fold_.state().comparison().text(), HasSubstr("20 % slower than predicted: 80 samples/s"));
  EXPECT_EQ(fold_.state().task(1).out_share(), 0.25);
  EXPECT_EQ(fold_.state().task(1).in_share(), 0);
  const std::string metrics = OpenMetricsText(fold_.state());
  EXPECT_THAT(metrics, HasSubstr("tethys_predicted_low_samples_per_second{job=\"\"} 90\n"));
  EXPECT_THAT(metrics, HasSubstr("host=\"slave1\",direction=\"out\"} 0.25\n"));
  Listening();
  EXPECT_FALSE(fold_.state().has_comparison());
}

TEST_F(LiveStateTest, StalenessIsThatOfTheNewestPulseAndBounded) {
  proto::ProgressEvent event = PulseOf(1, {1});
  for (int i = 0; i < 100; ++i) event.mutable_pulse()->add_staleness_count(i);
  fold_.Add(event);
  EXPECT_EQ(fold_.state().staleness_count_size(), 64);
  event.mutable_pulse()->mutable_staleness_count()->Truncate(2);
  event.mutable_pulse()->set_seconds(2);
  fold_.Add(event);
  EXPECT_THAT(fold_.state().staleness_count(), ElementsAre(0, 1));
}

TEST_F(LiveStateTest, MetricsHaveCumulativeBucketsAndEscapedLabels) {
  proto::LiveState state;
  state.set_job("a\"b\\c\nd");
  for (const int64_t count : {1, 2, 4}) state.add_step_bucket(count);
  const std::string text = OpenMetricsText(state);
  EXPECT_THAT(text,
              HasSubstr("tethys_step_duration_seconds_bucket{job=\"a\\\"b\\\\c\\nd\",le=\"0.0001\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("le=\"0.0002\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("le=\"+Inf\"} 7\n"));
  EXPECT_THAT(text, Not(HasSubstr("le=\"0.0004\"")));
  EXPECT_THAT(text, ::testing::EndsWith("\n# EOF\n"));
}

TEST_F(LiveStateTest, MetricsHaveAllDigitsOfCounters) {
  proto::LiveState state;
  state.mutable_progress()->set_step(123456789);
  state.mutable_progress()->set_loss(0.1);
  const std::string text = OpenMetricsText(state);
  EXPECT_THAT(text, HasSubstr("tethys_steps_total{job=\"\"} 123456789\n"));
  EXPECT_THAT(text, HasSubstr("tethys_loss{job=\"\"} 0.1\n"));
}

}  // namespace
}  // namespace tethys
