#include "deploy/sweep/period_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/deploy/sweep/planted_curve.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;

constexpr Noise kQuiet = {.of_visit = 0.006, .disturbed = 0.1};

TEST(TestPeriodTest, JumpsAfterMultiplesOf16AreSeen) {
  std::mt19937_64 random(1);
  const proto::PeriodTest test = TestPeriod(PlantedSweep(VggTime, 15, random), 16, 1);
  EXPECT_EQ(test.verdict(), proto::PeriodTest::SEEN);
  EXPECT_EQ(test.rank(), 1);
  EXPECT_EQ(test.periods(), 34);
  const double truth = 10 / VggTime(35.5);
  EXPECT_NEAR(test.share(), truth, 0.015);
  EXPECT_LE(test.low(), truth);
  EXPECT_GE(test.high(), truth);
}

TEST(TestPeriodTest, MeasuringEveryFourthBatchIsEnough) {
  std::mt19937_64 random(2);
  EXPECT_EQ(TestPeriod(PlantedSweep(VggTime, 15, random, {}, 69, 4), 16, 1).verdict(),
            proto::PeriodTest::SEEN);
}

TEST(TestPeriodTest, JumpsAfterMultiplesOf8AreNotTakenForMultiplesOf16) {
  std::mt19937_64 random(3);
  const auto truth = [](double batch) { return 20 + 4 * batch + 10 * std::floor((batch - 1) / 8); };
  const proto::PeriodTest test = TestPeriod(PlantedSweep(truth, 15, random, kQuiet), 16, 1);
  EXPECT_EQ(test.verdict(), proto::PeriodTest::NOT_SEEN);
  EXPECT_GT(test.rank(), 1);
}

TEST(TestPeriodTest, LinesAndBendsAreNotTakenForJumps) {
  std::mt19937_64 random(4);
  int seen = 0;
  double excluded = 0;
  for (int curve = 0; curve < 40; ++curve) {
    const double bend = curve % 4 * 0.01;
    const auto truth = [&](double batch) { return 2 + 0.5 * batch - bend * 0.2 * batch * batch / 10; };
    const proto::PeriodTest test = TestPeriod(PlantedSweep(truth, 15, random), 16, curve);
    seen += test.verdict() == proto::PeriodTest::SEEN;
    excluded = std::max(excluded, test.excluded_above());
  }
  EXPECT_LE(seen, 1) << "of 40: by chance a period is the best of 34, and its interval excludes 0";
  EXPECT_LT(excluded, 0.03) << "a jump of 3 % would be excluded";
}

// A curve like LeNet's on a CPU: in batches too large for the cache, a sample costs more.
TEST(TestPeriodTest, BendAtOneMultipleIsNotTakenForJumpsAtAllMultiples) {
  std::mt19937_64 random(6);
  const auto truth = [](double batch) { return batch * (28 + 7 / (1 + std::exp((15 - batch) / 2))); };
  const proto::PeriodTest test = TestPeriod(PlantedSweep(truth, 15, random, kQuiet), 16, 1);
  EXPECT_EQ(test.verdict(), proto::PeriodTest::NOT_SEEN);
  EXPECT_LT(test.excluded_above(), 0.02);
}

TEST(TestPeriodTest, SweepWithTooFewBatchesOrRoundsIsNotTestable) {
  std::mt19937_64 random(5);
  const proto::PeriodTest few_batches = TestPeriod(PlantedSweep(VggTime, 15, random, {}, 40), 16, 1);
  EXPECT_EQ(few_batches.verdict(), proto::PeriodTest::NOT_TESTABLE);
  EXPECT_THAT(few_batches.reason(), HasSubstr("2 multiples of 16"));
  const proto::PeriodTest few_rounds = TestPeriod(PlantedSweep(VggTime, 6, random), 16, 1);
  EXPECT_THAT(few_rounds.reason(), HasSubstr("7 rounds"));
  EXPECT_EQ(TestPeriod(PlantedSweep(VggTime, 15, random, {}, 65, 16), 16, 1).verdict(),
            proto::PeriodTest::NOT_TESTABLE);
}

}  // namespace
}  // namespace tethys
