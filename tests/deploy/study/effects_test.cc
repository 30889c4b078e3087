#include "deploy/study/effects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "deploy/study/least_squares.h"
#include "runtime/base/random.h"

namespace tethys {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::IsEmpty;
using ::testing::Lt;
using ::testing::SizeIs;

class Noise {
 public:
  explicit Noise(uint64_t seed) : random_(seed, RandomPurpose::kTest, 0) {}
  // A sum of uniform random numbers, nearly normally distributed with the given deviation.
  double Next(double deviation) {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += random_.Next32() / 4294967296.0;
    return sum * deviation;
  }

 private:
  RandomStream random_;
};

// A study of three factors with 3, 2 and 2 levels: the first factor doubles times from level to level, the
// third factor has no effect, and the first two factors interact in one combination.
std::vector<Observation> Planted(int blocks, double noise, double interaction, uint64_t seed = 1) {
  Noise random(seed);
  std::vector<Observation> rows;
  for (int block = 0; block < blocks; ++block) {
    for (int a = 0; a < 3; ++a) {
      for (int b = 0; b < 2; ++b) {
        for (int c = 0; c < 2; ++c) {
          const double seconds = 10.0 * std::pow(2, a) * (b == 1 ? 1.5 : 1) *
                                 (a == 2 && b == 1 ? interaction : 1) *
                                 std::exp(0.3 * block + random.Next(noise));
          rows.push_back({block, {a, b, c}, seconds});
        }
      }
    }
  }
  return rows;
}

TEST(LeastSquaresTest, DependentColumnIsLeftOut) {
  LeastSquares fit;
  EXPECT_TRUE(fit.AddColumn({1, 1, 1, 1}));
  EXPECT_TRUE(fit.AddColumn({0, 1, 2, 3}));
  EXPECT_FALSE(fit.AddColumn({1, 2, 3, 4}));
  const std::vector<double> y = {5, 7, 9, 11};
  EXPECT_THAT(fit.Solve(y), ElementsAre(DoubleNear(5, 1e-9), DoubleNear(2, 1e-9), 0));
  EXPECT_NEAR(fit.Residual(y), 0, 1e-18);
}

TEST(FitEffectsTest, PlantedRatiosAreFoundWithinIntervals) {
  const auto terms = FitEffects({3, 2, 2}, Planted(5, 0.02, 1), {.permutations = 400, .draws = 200});
  ASSERT_TRUE(terms.ok());
  ASSERT_THAT(*terms, SizeIs(6));
  const TermEffects& first = (*terms)[0];
  ASSERT_THAT(first.level, SizeIs(3));
  EXPECT_NEAR(first.level[0].value, 0.5, 0.01);
  EXPECT_NEAR(first.level[1].value, 1, 0.02);
  EXPECT_NEAR(first.level[2].value, 2, 0.04);
  EXPECT_THAT(*first.level[2].low, Lt(2.0));
  EXPECT_THAT(*first.level[2].high, Gt(2.0));
  EXPECT_NEAR((*terms)[1].level[1].value, std::sqrt(1.5), 0.02);
  EXPECT_THAT(first.eta_squared, Gt(0.8));
}

TEST(FitEffectsTest, IntervalsOfFiveBlocksContainPlantedRatios) {
  int held = 0, all = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const auto terms = FitEffects({3, 2, 2}, Planted(5, 0.05, 1, seed), {.permutations = 1, .draws = 200});
    ASSERT_TRUE(terms.ok());
    const LevelEffect& effect = (*terms)[0].level[2];
    held += *effect.low <= 2 && 2 <= *effect.high;
    ++all;
  }
  EXPECT_GE(held, all * 9 / 10) << held << " of " << all;
}

TEST(FitEffectsTest, OnlyPlantedEffectsHaveSmallPValues) {
  const auto terms = FitEffects({3, 2, 2}, Planted(4, 0.05, 1.6), {.permutations = 500, .draws = 10});
  ASSERT_TRUE(terms.ok());
  const auto p = [&](const std::vector<int>& factors) {
    for (const TermEffects& term : *terms) {
      if (term.factors == factors) return *term.p;
    }
    return -1.0;
  };
  EXPECT_THAT(p({0}), Lt(0.02));
  EXPECT_THAT(p({1}), Lt(0.02));
  EXPECT_THAT(p({0, 1}), Lt(0.02));
  EXPECT_THAT(p({2}), Gt(0.1));
  EXPECT_THAT(p({0, 2}), Gt(0.1));
}

TEST(FitEffectsTest, NoiseAloneIsSeldomCalledAnEffect) {
  int called = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    std::vector<Observation> rows = Planted(2, 0.1, 1, seed + 10);
    Noise random(seed);
    for (Observation& row : rows) row.value = 10 * std::exp(random.Next(0.1));
    const auto terms = FitEffects({3, 2, 2}, rows, {.permutations = 100, .draws = 0, .seed = seed});
    ASSERT_TRUE(terms.ok());
    for (const TermEffects& term : *terms) called += *term.p < 0.05;
  }
  // Holm's correction keeps the probability of any false positive in a study at 5 %. On average, 2 of 40
  // studies have a false positive.
  EXPECT_LE(called, 6);
}

TEST(FitEffectsTest, MissingCombinationLeavesInteractionUndetermined) {
  std::vector<Observation> rows = Planted(3, 0.01, 1);
  std::erase_if(rows, [](const Observation& row) { return row.level[0] == 2 && row.level[1] == 1; });
  const auto terms = FitEffects({3, 2, 2}, rows, {.permutations = 50, .draws = 50});
  ASSERT_TRUE(terms.ok());
  for (const TermEffects& term : *terms) {
    if (term.factors == std::vector<int>{0, 1}) {
      EXPECT_THAT(term.level, IsEmpty());
    } else if (term.factors == std::vector<int>{2}) {
      EXPECT_THAT(term.level, SizeIs(2));
    }
  }
}

TEST(FitEffectsTest, EqualValuesHaveNoEffects) {
  for (const bool logarithm : {false, true}) {
    std::vector<Observation> rows = Planted(4, 0, 1);
    for (Observation& row : rows) row.value = 0.1;
    const auto terms = FitEffects({3, 2, 2}, rows, {.logarithm = logarithm, .permutations = 50, .draws = 50});
    ASSERT_TRUE(terms.ok());
    for (const TermEffects& term : *terms) {
      EXPECT_EQ(term.eta_squared, 0);
      EXPECT_EQ(term.p.value_or(1), 1);
      for (const LevelEffect& effect : term.level) {
        for (const double value : {effect.value, *effect.low, *effect.high})
          EXPECT_EQ(value, logarithm ? 1 : 0);
      }
    }
  }
}

TEST(FitEffectsTest, EffectsFromASingleBlockHaveNoIntervals) {
  const auto terms = FitEffects({3, 2, 2}, Planted(1, 0.01, 1), {.permutations = 50, .draws = 50});
  ASSERT_TRUE(terms.ok());
  EXPECT_FALSE((*terms)[0].level[0].low.has_value());
}

TEST(FitEffectsTest, ValueWithoutLogarithmIsRefused) {
  std::vector<Observation> rows = Planted(1, 0, 1);
  rows[3].value = 0;
  EXPECT_FALSE(FitEffects({3, 2, 2}, rows, {}).ok());
  EXPECT_TRUE(FitEffects({3, 2, 2}, rows, {.logarithm = false, .permutations = 10}).ok());
  EXPECT_FALSE(FitEffects({3, 2, 2}, absl::MakeConstSpan(rows).subspan(0, 1), {}).ok());
}

TEST(HolmTest, SmallestPIsMultipliedByTheNumberOfTests) {
  EXPECT_THAT(HolmAdjusted({0.04, 0.01, 0.03}),
              ElementsAre(DoubleNear(0.06, 1e-12), DoubleNear(0.03, 1e-12), DoubleNear(0.06, 1e-12)));
}

}  // namespace
}  // namespace tethys
