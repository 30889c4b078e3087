// Tests the figures of the last half minute, made from pulses.
#include "deploy/live/recent_steps.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace tethys {
namespace {

class RecentStepsTest : public ::testing::Test {
 protected:
  // Adds a pulse (the chief's report on all tasks, about once a second). In each step worker i computes for
  // compute[i] seconds. Since the last pulse the workers have made `steps` steps in all, each of
  // `step_seconds`.
  void Pulse(double at, int64_t steps, double step_seconds, const std::vector<double>& compute = {0.01},
             double others = 0) {
    steps_ += steps;
    step_seconds_sum_ += static_cast<double>(steps) * step_seconds;
    proto::Pulse pulse;
    pulse.set_seconds(at);
    pulse.add_step_bucket(steps_);
    pulse.set_step_seconds_sum(step_seconds_sum_);
    for (const double seconds : compute) {
      proto::TaskPulse& task = *pulse.add_task();
      task.set_role("worker");
      task.set_state(proto::TaskPulse::RUNNING);
      task.mutable_compute_seconds()->set_median(seconds);
      task.mutable_exchange_seconds()->set_median(step_seconds - seconds);
    }
    proto::MachinePulse& machine = *pulse.add_machine();
    machine.set_host("slave1");
    machine.set_cores(2);
    machine.set_job_cpu_percent(50);
    machine.set_cpu_percent(50 + 200 * others);
    recent_.Add(pulse);
  }

  int64_t steps_ = 0;
  double step_seconds_sum_ = 0;
  RecentSteps recent_;
};

TEST_F(RecentStepsTest, FirstPulseWithStepsIsLeftOut) {
  Pulse(1, 0, 0);
  Pulse(2, 10, 1);
  for (int at = 3; at <= 6; ++at) Pulse(at, 10, 0.1);
  EXPECT_FALSE(recent_.Figures().has_value());  // Too short: the pulses span only four seconds.
  Pulse(7, 10, 0.1);
  ASSERT_TRUE(recent_.Figures().has_value());
  EXPECT_NEAR(recent_.Figures()->step, 0.1, 1e-12);
  EXPECT_EQ(recent_.Figures()->workers, 1);
}

TEST_F(RecentStepsTest, OldPulsesAreLeftOutOfTheStepFigures) {
  for (int at = 1; at <= 40; ++at) Pulse(at, 10, 0.1);
  for (int at = 41; at <= 71; ++at) Pulse(at, 10, 0.2);
  EXPECT_NEAR(recent_.Figures()->step, 0.2, 1e-12);
}

TEST_F(RecentStepsTest, SlowestWorkerComputesLongestAndWaitsLeast) {
  for (int at = 1; at <= 10; ++at) Pulse(at, 30, 0.1, {0.03, 0.08, 0.04});
  const auto figures = recent_.Figures();
  ASSERT_TRUE(figures.has_value());
  EXPECT_DOUBLE_EQ(figures->slowest_compute, 0.08);
  EXPECT_DOUBLE_EQ(figures->median_compute, 0.04);
  EXPECT_NEAR(figures->least_exchange, 0.02, 1e-12);
  EXPECT_NEAR(figures->median_exchange, 0.06, 1e-12);
}

TEST_F(RecentStepsTest, CpuUseOfOtherProgramsIsAveragedOverTime) {
  Pulse(1, 10, 0.1);
  for (int at = 2; at <= 11; ++at) Pulse(at, 10, 0.1, {0.01}, at <= 6 ? 0.4 : 0);
  EXPECT_NEAR(recent_.Figures()->others_cpu, 0.2, 1e-12);
  EXPECT_EQ(recent_.Figures()->others_host, "slave1");
}

TEST_F(RecentStepsTest, LongPauseDiscardsEarlierPulses) {
  for (int at = 1; at <= 10; ++at) Pulse(at, 10, 0.1);
  Pulse(100, 10, 0.1);
  EXPECT_FALSE(recent_.Figures().has_value());
}

TEST_F(RecentStepsTest, TooFewStepsGiveNoStepFigures) {
  for (int at = 1; at <= 10; ++at) Pulse(at, 1, 1);
  EXPECT_FALSE(recent_.Figures().has_value());
}

}  // namespace
}  // namespace tethys
