// Tests the estimate of the time to the end of a run, and its interval.
#include "deploy/live/time_left.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>

namespace tethys {
namespace {

constexpr double kTotal = 1'000'000;

class TimeLeftTest : public ::testing::Test {
 protected:
  // Trains `samples` more samples, until `seconds` after the chief started.
  void Train(double seconds, double samples) {
    samples_ += samples;
    proto::Progress progress;
    progress.set_epoch_samples(int64_t{1} << 40);
    progress.set_epoch_samples_done(std::llround(samples_));
    progress.set_samples_per_second(100);
    progress.set_eta_seconds((kTotal - samples_) / 100);
    left_.Add(progress);
    left_.At(seconds);
  }
  double samples_ = 0;
  TimeLeft left_;
};

TEST_F(TimeLeftTest, EvenPaceHasANarrowInterval) {
  for (int at = 1; at <= 1000; ++at) Train(at, 500);
  const auto left = left_.Left();
  ASSERT_TRUE(left.has_value());
  EXPECT_NEAR(left->value(), 1000, 1e-6);
  EXPECT_NEAR(left->low(), 1000, 1e-6);
  EXPECT_NEAR(left->high(), 1000, 1e-6);
}

TEST_F(TimeLeftTest, FewerThanEightBlocksOfTimeGiveNoEstimate) {
  for (int at = 1; at <= 15; ++at) Train(at, 500);
  EXPECT_FALSE(left_.Left().has_value());
  for (int at = 16; at <= 18; ++at) Train(at, 500);
  EXPECT_TRUE(left_.Left().has_value());
}

TEST_F(TimeLeftTest, TimeLeftIgnoresThePaceOfTheFirstHalf) {
  for (int at = 1; at <= 100; ++at) Train(at, 10);
  for (int at = 101; at <= 300; ++at) Train(at, 1000);
  EXPECT_NEAR(left_.Left()->value(), (kTotal - samples_) / 1000, 1e-6);
}

TEST_F(TimeLeftTest, PausesOfValidationAreIncluded) {
  for (int at = 1; at <= 800; ++at) Train(at, at % 10 < 5 ? 1000 : 0);
  const auto left = left_.Left();
  ASSERT_TRUE(left.has_value());
  EXPECT_NEAR(left->value(), (kTotal - samples_) / 500, 0.05 * left->value());
}

// The samples per second are independent random numbers around 500. The interval must contain the true end in
// about 90 % of the runs.
TEST_F(TimeLeftTest, IntervalContainsTheTrueTimeLeftInNinetyPercentOfRuns) {
  std::mt19937 random(1);
  std::normal_distribution<double> pace(500, 100);
  int held = 0;
  constexpr int kRuns = 400;
  for (int run = 0; run < kRuns; ++run) {
    left_ = {};
    samples_ = 0;
    int at = 1;
    for (; at <= 500; ++at) Train(at, pace(random));
    const auto left = left_.Left();
    ASSERT_TRUE(left.has_value());
    double rest = kTotal - samples_, seconds = 0;
    for (; rest > 0; ++seconds) rest -= pace(random);
    held += left->low() <= seconds && seconds <= left->high() ? 1 : 0;
  }
  EXPECT_GE(held, 0.84 * kRuns);
  EXPECT_LE(held, 0.96 * kRuns);
}

TEST_F(TimeLeftTest, ResumedAttemptDiscardsEarlierTimes) {
  for (int at = 1; at <= 100; ++at) Train(at, 1000);
  samples_ = 0;
  Train(101, 10);
  EXPECT_FALSE(left_.Left().has_value());
}

}  // namespace
}  // namespace tethys
