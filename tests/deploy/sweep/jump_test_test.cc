#include "deploy/sweep/jump_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "deploy/sweep/segment_fit.h"
#include "tests/deploy/sweep/planted_curve.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(SegmentFitTest, ExactLinesAreFoundWithTheirCuts) {
  std::vector<double> x, y;
  for (int i = 1; i <= 30; ++i) {
    x.push_back(i);
    y.push_back(i <= 11 ? 1 + 0.5 * i : i <= 20 ? 3 + 0.5 * i : 20 - 0.25 * i);
  }
  const CurvePoints points(x, y, 0.003);
  EXPECT_THAT(FindCuts(points), ElementsAre(11, 20));
  EXPECT_NEAR(points.Line(11, 20).at_zero, 3, 1e-6);
  EXPECT_NEAR(points.Line(20, 30).slope, -0.25, 1e-6);
  EXPECT_NEAR(points.Cost(11, 20), 0, 1e-3);
}

TEST(SegmentFitTest, CurveWithTooFewPointsIsNotCutIntoSegments) {
  EXPECT_THAT(FindCuts(CurvePoints({1, 2, 3, 4, 5, 6, 7}, {1, 1, 1, 5, 5, 5, 5}, 0.01)), IsEmpty());
}

// Compares the two cuts that the dynamic programme finds with the best of all pairs of cuts.
TEST(SegmentFitTest, TwoFoundCutsCostNoMoreThanAnyOtherPairOfCuts) {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 20; ++trial) {
    const RoundTimes rounds =
        PlantedSweep([](double) { return 1.0; }, 1, random, {.of_visit = 0.05, .disturbed = 0.3}, 24);
    const CurvePoints points(rounds.batch, rounds.time[0], 0.02);
    const std::vector<size_t> cuts = FindCuts(points, {.most_cuts = 2, .penalty = 0});
    ASSERT_THAT(cuts, SizeIs(2));
    const auto cost = [&](size_t a, size_t b) {
      return points.Cost(0, a) + points.Cost(a, b) + points.Cost(b, 24);
    };
    double least = 1e300;
    for (size_t a = 4; a <= 16; ++a) {
      for (size_t b = a + 4; b <= 20; ++b) least = std::min(least, cost(a, b));
    }
    EXPECT_NEAR(cost(cuts[0], cuts[1]), least, 1e-6 * least);
  }
}

TEST(PooledErrorTest, StraightLineOrSingleJumpDoesNotRaiseTheEstimateOfTheNoise) {
  std::vector<double> batch, line, jump, fluctuating;
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  for (int i = 1; i <= 60; ++i) {
    batch.push_back(i < 30 ? i : 2 * i);  // The distance between batches changes here.
    line.push_back(5 + batch.back());
    jump.push_back(line.back() + (i > 30 ? 10 : 0));
    fluctuating.push_back(line.back() * std::exp(0.03 * normal(random)));
  }
  EXPECT_DOUBLE_EQ(PooledError(batch, line), 0.003);
  EXPECT_DOUBLE_EQ(PooledError(batch, jump), 0.003);
  EXPECT_NEAR(PooledError(batch, fluctuating), 0.03, 0.01);
}

TEST(FindJumpsTest, NoneIsFoundIn150CurvesWithoutJumps) {
  std::mt19937_64 random(7);
  int found = 0;
  for (int curve = 0; curve < 150; ++curve) {
    found += static_cast<int>(FindJumps(PlantedSweep(MlpTime, 15, random), curve).jump.size());
  }
  std::printf("no jump, 30 %% of visits disturbed: %d false jumps in 150 curves\n", found);
  EXPECT_EQ(found, 0);
}

// The jumps found in 20 curves that jump by `share` after batches 16, 32, 48 and 64. `there` counts the jumps
// that were found at most one batch away from these batches, `elsewhere` all other jumps.
struct Found {
  int there = 0, elsewhere = 0;
};
Found CountFound(double share, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto line = [](double batch) { return 2 + 0.5 * batch; };
  const auto truth = [&](double batch) {
    double time = line(batch);
    for (const double after : {16, 32, 48, 64}) time += batch > after ? share * line(after) : 0;
    return time;
  };
  Found found;
  for (int curve = 0; curve < 20; ++curve) {
    const Jumps jumps = FindJumps(PlantedSweep(truth, 15, random), curve);
    for (const proto::Jump& jump : jumps.jump) {
      const bool there = std::abs(std::fmod(jump.after() + 8, 16) - 8) <= 1;
      (there ? found.there : found.elsewhere)++;
    }
  }
  return found;
}

TEST(FindJumpsTest, NineOfTenJumpsOfThreePercentAreFoundWithinABatch) {
  const Found found = CountFound(0.03, 11);
  std::printf("jumps of 3 %%: %d of 80 found within a batch, %d elsewhere\n", found.there, found.elsewhere);
  EXPECT_GE(found.there, 72);
  EXPECT_LE(found.elsewhere, 2);
}

TEST(FindJumpsTest, FoundJumpHasThePlantedSizeAndPlaceWithinItsInterval) {
  std::mt19937_64 random(5);
  const Jumps jumps = FindJumps(PlantedSweep(VggTime, 15, random), 1);
  ASSERT_THAT(jumps.jump, SizeIs(4));
  ASSERT_THAT(jumps.segment, SizeIs(5));
  EXPECT_NEAR(jumps.jump[0].after(), 16, 1);
  EXPECT_LE(jumps.jump[0].least(), 16);
  EXPECT_GE(jumps.jump[0].most(), 16);
  EXPECT_NEAR(jumps.jump[0].seconds(), 10, 3);
  EXPECT_LE(jumps.jump[0].p(), 0.05);
  EXPECT_NEAR(jumps.segment[1].per_sample(), 4, 0.5);
}

TEST(FindJumpsTest, StepThatBecomesShorterIsAJumpToo) {
  std::mt19937_64 random(6);
  const auto truth = [](double batch) { return (10 + batch) * (batch > 40 ? 0.9 : 1); };
  const Jumps jumps = FindJumps(PlantedSweep(truth, 15, random), 1);
  ASSERT_THAT(jumps.jump, SizeIs(1));
  EXPECT_NEAR(jumps.jump[0].after(), 40, 1);
  EXPECT_LT(jumps.jump[0].share(), -0.05);
}

// A curve like MobileNet's, whose true times fluctuate by 3 % from batch to batch.
TEST(FindJumpsTest, FluctuatingCurvesHaveFewJumps) {
  std::mt19937_64 random(9);
  std::normal_distribution<double> normal;
  int found = 0;
  for (int curve = 0; curve < 60; ++curve) {
    std::vector<double> truth(71);
    for (int batch = 1; batch <= 70; ++batch)
      truth[batch] = (2 + 0.5 * batch) * std::exp(0.03 * normal(random));
    const RoundTimes rounds =
        PlantedSweep([&](double batch) { return truth[static_cast<int>(batch)]; }, 15, random);
    found += static_cast<int>(FindJumps(rounds, curve).jump.size());
  }
  EXPECT_LE(found, 2);
}

TEST(FindJumpsTest, MissingVisitsAreNotTakenForTimesOfZero) {
  std::mt19937_64 random(4);
  RoundTimes rounds = PlantedSweep(VggTime, 15, random);
  for (size_t round = 0; round < 15; ++round) {
    for (size_t i = round % 3; i < 70; i += 3) rounds.time[round][i] = 0;
  }
  const Jumps jumps = FindJumps(rounds, 1);
  EXPECT_GE(jumps.jump.size(), 3u);
  for (const proto::Jump& jump : jumps.jump) EXPECT_LE((jump.after() + 1) % 16, 2);
}

TEST(DetectableJumpTest, NoiseRaisesTheSmallestVisibleJump) {
  std::mt19937_64 random(2);
  const double quiet =
      DetectableJump(PlantedSweep(MlpTime, 15, random, {.of_visit = 0.004, .disturbed = 0.1}), 1);
  const double loud =
      DetectableJump(PlantedSweep(MlpTime, 7, random, {.of_visit = 0.05, .disturbed = 0.3}), 1);
  EXPECT_GE(quiet, 0.02);
  EXPECT_LE(quiet, 0.03);
  EXPECT_TRUE(loud == 0 || loud > 0.04) << loud;
}

}  // namespace
}  // namespace tethys
