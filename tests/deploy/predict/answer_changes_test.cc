#include "deploy/predict/answer_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "deploy/predict/step_model.h"
#include "deploy/predict/what_if.h"
#include "tests/deploy/predict/predict_fixture.h"

namespace tethys {
namespace {

using ::testing::Pair;
using ::testing::UnorderedElementsAre;

Candidate Named(const std::string& strategy, int workers = 1, int servers = 0) {
  return {.shape = {ParseStrategy(strategy), workers, servers}, .prediction = {}};
}

// The best strategy is local up to `low`, mirrored between `low` and `high`, and with servers from `high` on.
BestAt Turning(double low, double high) {
  return [=](double value) { return Named(value <= low ? "local" : value >= high ? "ps_sync" : "mirrored"); };
}

PropertyTurns TurnsOf(const PropertyRange& range, const BestAt& best_at) {
  const absl::StatusOr<PropertyTurns> turns = FindTurns(range, StrategyFamily::kMirrored, best_at);
  TETHYS_CHECK(turns.ok(), turns.status().message());
  return *turns;
}

TEST(FindTurnsTest, FoundTurningPointsLieWithinThreePercentOfTheTrueOnes) {
  const PropertyTurns turns = TurnsOf({.now = 10, .least = 1, .most = 1000}, Turning(3.1, 333));
  ASSERT_TRUE(turns.below && turns.above);
  EXPECT_EQ(turns.below->best.shape.strategy, StrategyFamily::kLocal);
  EXPECT_LE(turns.below->value, 3.1);
  EXPECT_GT(turns.below->value, 3.1 / 1.03);
  EXPECT_EQ(turns.above->best.shape.strategy, StrategyFamily::kBulkSynchronous);
  EXPECT_GE(turns.above->value, 333);
  EXPECT_LT(turns.above->value, 333 * 1.03);
}

TEST(FindTurnsTest, TurningPointOfAWholeNumberIsTheFirstNumberThatChangesTheAnswer) {
  for (const double low : {1, 3, 5, 8}) {
    for (const double high : {10, 11, 17, 18, 35, 36}) {
      const PropertyTurns turns =
          TurnsOf({.now = 9, .least = 1, .most = 36, .whole = true}, Turning(low, high));
      ASSERT_TRUE(turns.below && turns.above) << low << " " << high;
      EXPECT_EQ(turns.below->value, low);
      EXPECT_EQ(turns.above->value, high);
    }
  }
}

TEST(FindTurnsTest, AnswerThatStaysTheSameInTheRangeHasNoTurningPoint) {
  const PropertyTurns turns = TurnsOf({.now = 10, .least = 4, .most = 300}, Turning(3.1, 333));
  EXPECT_FALSE(turns.below);
  EXPECT_FALSE(turns.above);
  const PropertyTurns one = TurnsOf({.now = 1, .least = 1, .most = 1, .whole = true}, Turning(0, 2));
  EXPECT_FALSE(one.below);
  EXPECT_FALSE(one.above);
}

TEST(FindTurnsTest, ErrorOfTheModelIsReturned) {
  const auto fails = [](double) -> absl::StatusOr<Candidate> { return absl::NotFoundError("no link"); };
  EXPECT_TRUE(absl::IsNotFound(
      FindTurns({.now = 2, .least = 1, .most = 4}, StrategyFamily::kMirrored, fails).status()));
}

TEST(TurnsTextTest, TurningPointsAreRoundedAwayFromThePresentValue) {
  const auto mbit = [](double value) { return LinkRateText(value * 1e6 / 8); };
  PropertyTurns turns{.range = {.now = 940, .least = 1, .most = 100000},
                      .below = Turn{311, Named("local")},
                      .above = Turn{3110, Named("mirrored", 7)}};
  EXPECT_EQ(TurnsText(turns, mbit),
            "from 3.2 Gbit/s on, mirrored with 7 workers would be the best; at 310 Mbit/s and below, local "
            "would be the best.");
  turns.above->value = 3200;
  turns.below->value = 1;
  EXPECT_EQ(TurnsText(turns, mbit),
            "from 3.2 Gbit/s on, mirrored with 7 workers would be the best; at 1 Mbit/s, local would be the "
            "best.");
  turns.below.reset();
  EXPECT_EQ(
      TurnsText(turns, mbit),
      "from 3.2 Gbit/s on, mirrored with 7 workers would be the best; no value down to 1 Mbit/s changes "
      "the strategy.");
  turns.above.reset();
  EXPECT_EQ(TurnsText(turns, mbit), "no value from 1 Mbit/s to 100 Gbit/s changes the strategy.");
}

TEST(TurnsTextTest, TurningPointsThatAreWholeNumbersAreNotRounded) {
  const PropertyTurns turns{.range = {.now = 90, .least = 1, .most = 360, .whole = true},
                            .below = {},
                            .above = Turn{123, Named("ps_sync", 3, 1)}};
  EXPECT_EQ(TurnsText(turns, [](double hosts) { return absl::StrCat(hosts, " hosts"); }),
            "from 123 hosts on, ps_sync with 3 workers and 1 server would be the best; no value down to 1 "
            "hosts changes the strategy.");
}

// A local job, a mirrored job and a job with servers, on hosts whose steps take ten times as long as on
// SmallHosts.
class BestByModelTest : public testing::Test {
 protected:
  BestByModelTest() { ScaleSpeed(0.1, calibration_); }

  absl::StatusOr<Candidate> BestWith(const proto::Calibration& calibration) const {
    std::vector<Candidate> candidates;
    for (const Shape784& shape : {Shape784{1, 0}, {4, 0}, {3, 1}}) {
      const char* strategy = shape.servers > 0 ? "ps_sync" : shape.workers > 1 ? "mirrored" : "local";
      candidates.push_back(Named(strategy, shape.workers, shape.servers));
      TETHYS_ASSIGN_OR_RETURN(candidates.back().prediction,
                              Predict(PlanFor(shape), OneEach(shape), calibration));
    }
    return BestByModel(candidates, corrections_, {});
  }
  std::string NameWith(const proto::Calibration& calibration) const {
    const absl::StatusOr<Candidate> best = BestWith(calibration);
    return best.ok() ? StrategyName(best->shape.strategy) : std::string(best.status().message());
  }

  StrategyCorrections corrections_;
  proto::Calibration calibration_ = SmallHosts(1000);
};

TEST_F(BestByModelTest, SlowLinksTurnTheAnswerToLocal) {
  ASSERT_EQ(NameWith(calibration_), "mirrored");
  const auto with_links = [&](double mbit) {
    proto::Calibration changed = calibration_;
    ScaleLinks(mbit / 1000, changed);
    return changed;
  };
  const absl::StatusOr<PropertyTurns> turns =
      FindTurns({.now = 1000, .least = 1, .most = 1000}, StrategyFamily::kMirrored,
                [&](double mbit) { return BestWith(with_links(mbit)); });
  ASSERT_TRUE(turns.ok()) << turns.status();
  ASSERT_TRUE(turns->below);
  EXPECT_EQ(turns->below->best.shape.strategy, StrategyFamily::kLocal);
  EXPECT_EQ(NameWith(with_links(0.99 * turns->below->value)), "local");
  EXPECT_EQ(NameWith(with_links(1.05 * turns->below->value)), "mirrored");
}

TEST_F(BestByModelTest, FastComputingTurnsTheAnswerToLocal) {
  proto::Calibration fast = calibration_;
  ScaleSpeed(1000, fast);
  EXPECT_EQ(NameWith(fast), "local");
}

TEST_F(BestByModelTest, PredictionsAreCorrectedByBriefRunsOfTheirOwnStrategy) {
  // Mirrored jobs run at a tenth of their prediction, so a job with servers is the best.
  corrections_ = {{StrategyFamily::kMirrored, 10}};
  EXPECT_EQ(NameWith(calibration_), "ps_sync");
  corrections_ = {{StrategyFamily::kMirrored, 10}, {StrategyFamily::kBulkSynchronous, 10}};
  EXPECT_EQ(NameWith(calibration_), "local");
}

TEST_F(BestByModelTest, NoCandidateIsBestIfAllAreAsynchronous) {
  EXPECT_TRUE(absl::IsFailedPrecondition(BestByModel({Named("ps_async", 2, 1)}, {}, {}).status()));
}

TEST(CorrectionsTest, CorrectionIsBestPredictedRateOverBestMeasuredRate) {
  const auto of = [](const std::string& strategy, double rate, std::vector<double> measured) {
    Candidate candidate = Named(strategy);
    candidate.prediction.mutable_samples_per_second()->set_value(rate);
    candidate.measured = std::move(measured);
    return candidate;
  };
  EXPECT_THAT(CorrectionsOf({of("mirrored", 300, {200}), of("mirrored", 290, {240, 250, 260}),
                             of("local", 100, {}), of("ps_sync", 200, {250}), of("ps_sync", 210, {})}),
              UnorderedElementsAre(Pair(StrategyFamily::kMirrored, 300 / 250.0),
                                   Pair(StrategyFamily::kBulkSynchronous, 210 / 250.0)));
}

}  // namespace
}  // namespace tethys
