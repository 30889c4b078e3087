#include "deploy/predict/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A run of 1,000 samples at `rate`, after 1 s of start-up, on machines that cost `price` a second.
Candidate Of(const std::string& strategy, int workers, double rate, double price = 0) {
  Candidate candidate{.shape = {ParseStrategy(strategy), workers, 0}, .prediction = {}};
  proto::Prediction& prediction = candidate.prediction;
  const auto set = [](double value, proto::Estimate& estimate) {
    estimate.set_value(value);
    estimate.set_low(0.9 * value);
    estimate.set_high(1.1 * value);
  };
  const double total = 1 + 1000 / rate;
  set(rate, *prediction.mutable_samples_per_second());
  set(total, *prediction.mutable_total());
  set(1, *prediction.mutable_startup());
  if (price > 0) set(price * total, *prediction.mutable_cost());
  return candidate;
}

TEST(AdviceTest, TakesTheFastestSynchronousCandidate) {
  const std::vector<Candidate> candidates = {Of("local", 1, 100), Of("mirrored", 4, 300),
                                             Of("ps_sync", 3, 200), Of("ps_async", 3, 900)};
  const Advice advice = Choose(candidates, {});
  EXPECT_EQ(advice.best, 1);
  EXPECT_EQ(advice.second, 2);
  EXPECT_TRUE(advice.met);
  EXPECT_EQ(advice.tied, -1);
}

TEST(AdviceTest, MeasurementsTakePrecedenceOverPredictions) {
  std::vector<Candidate> candidates = {Of("local", 1, 100), Of("mirrored", 4, 300), Of("ps_sync", 3, 280)};
  candidates[1].measured = {150, 152};
  candidates[2].measured = {260, 262};
  const Advice advice = Choose(candidates, {});
  EXPECT_EQ(advice.best, 2);
  EXPECT_NEAR(candidates[1].total(), 1 + 1000 / 151.0, 1e-9);
}

TEST(AdviceTest, OfTiedCandidatesTheOneThatUsesTheHostsAsGivenIsChosen) {
  std::vector<Candidate> candidates = {Of("local", 1, 101), Of("local", 1, 100)};
  candidates[0].use = "without slave1";
  EXPECT_EQ(Choose(candidates, {}).best, 1);
  EXPECT_EQ(Choose(candidates, {}).tied, 0);
  candidates[1] = Of("local", 1, 90);
  EXPECT_EQ(Choose(candidates, {}).best, 0);
}

TEST(AdviceTest, MeasuredRateReplacesTheTimeOfStepsButNotOfStartUp) {
  Candidate candidate = Of("local", 1, 100);  // 1 s of start-up, then 10 s of training.
  candidate.step_seconds = 4;
  candidate.measured = {50};
  EXPECT_NEAR(candidate.total(), 15, 1e-9);
}

TEST(AdviceTest, RunsOutsideTheIntervalContradictThePrediction) {
  Candidate candidate = Of("local", 1, 100);  // The interval of the rate is 90 to 110.
  EXPECT_FALSE(candidate.contradicted());
  candidate.measured = {91, 92};
  EXPECT_FALSE(candidate.contradicted());
  candidate.measured = {500, 510};
  EXPECT_TRUE(candidate.contradicted());
}

TEST(AdviceTest, BestCandidateOfEachWayOfUsingHostsIsVerifiedToo) {
  std::vector<Candidate> candidates = {Of("mirrored", 4, 300), Of("mirrored", 3, 298), Of("mirrored", 3, 150),
                                       Of("ps_sync", 3, 100), Of("local", 1, 90)};
  candidates[2].use = "without slave1";
  EXPECT_THAT(ToVerify(candidates, {}, 5), ElementsAre(0, 3, 4, 2, 1));
  EXPECT_THAT(ToVerify(candidates, {}, 4), ElementsAre(0, 3, 4, 2));
}

TEST(AdviceTest, PredictionsAreCorrectedByRunsOfTheirOwnStrategyOnly) {
  std::vector<Candidate> candidates = {Of("mirrored", 4, 300), Of("ps_sync", 1, 150), Of("ps_sync", 2, 140),
                                       Of("mirrored", 3, 290), Of("local", 1, 1000)};
  candidates[0].measured = {100};  // A third of the prediction; so mirrored with 3 workers is not promising.
  candidates[1].measured = {200};
  EXPECT_THAT(ToVerifyNext(candidates, 3), IsEmpty());
  candidates[2] = Of("ps_sync", 2, 160);
  EXPECT_THAT(ToVerifyNext(candidates, 3), ElementsAre(2));
}

TEST(AdviceTest, CandidatesWithinTheNoiseAreATie) {
  std::vector<Candidate> candidates = {Of("mirrored", 4, 300), Of("ps_sync", 3, 295)};
  EXPECT_EQ(Choose(candidates, {}).best, 1) << "it has fewer processes";
  EXPECT_EQ(Choose(candidates, {}).tied, 0);
  EXPECT_FALSE(Choose(candidates, {}).second_differs);
  candidates[0].measured = {300, 300};
  candidates[1].measured = {200, 300};  // The rates differ widely; their mean is 15 % below the prediction.
  EXPECT_EQ(Choose(candidates, {}).best, 0);
  EXPECT_EQ(Choose(candidates, {}).tied, 1);
  EXPECT_FALSE(Choose(candidates, {}).second_differs);
  candidates[1].measured = {200, 202};
  EXPECT_EQ(Choose(candidates, {}).tied, -1);
  EXPECT_TRUE(Choose(candidates, {}).second_differs);
}

TEST(AdviceTest, PredictionsWithinTheirErrorAreATie) {
  // Both intervals reach 10 % to either side, so a difference below 14 % may be an error.
  std::vector<Candidate> candidates = {Of("mirrored", 4, 300), Of("ps_sync", 3, 280)};
  EXPECT_EQ(Choose(candidates, {}).best, 0);
  EXPECT_EQ(Choose(candidates, {}).tied, 1);
  EXPECT_EQ(Choose(candidates, {}).second, 1);
  EXPECT_FALSE(Choose(candidates, {}).second_differs);
  candidates[1] = Of("ps_sync", 3, 200);
  EXPECT_EQ(Choose(candidates, {}).tied, -1);
  EXPECT_TRUE(Choose(candidates, {}).second_differs);
}

TEST(AdviceTest, TheCheapestWithinTheDeadlineIsChosen) {
  const std::vector<Candidate> candidates = {Of("local", 1, 100, 1), Of("mirrored", 4, 300, 4),
                                             Of("mirrored", 2, 190, 2)};
  EXPECT_EQ(Choose(candidates, {.deadline = 8, .budget = {}}).best, 2);
  EXPECT_EQ(Choose(candidates, {.deadline = 20, .budget = {}}).best, 0);
  EXPECT_EQ(Choose(candidates, {.deadline = {}, .budget = 13}).best, 2);
  EXPECT_THAT(Choose(candidates, {}).pareto, ElementsAre(1, 2, 0));
}

TEST(AdviceTest, NearestCandidateIsNamedIfNoneMeetsTheGoal) {
  const std::vector<Candidate> candidates = {Of("local", 1, 100, 1), Of("mirrored", 4, 300, 4)};
  const Advice advice = Choose(candidates, {.deadline = 2, .budget = {}});
  EXPECT_EQ(advice.best, 1);
  EXPECT_FALSE(advice.met);
  EXPECT_EQ(Choose(candidates, {.deadline = {}, .budget = 1}).best, 0);
}

TEST(AdviceTest, UnknownCostIsNeitherLowNorComparedWithTime) {
  std::vector<Candidate> candidates = {Of("local", 1, 100, 100), Of("mirrored", 4, 300)};
  const Advice advice = Choose(candidates, {.deadline = 20, .budget = {}});
  EXPECT_EQ(advice.best, 1);
  EXPECT_THAT(advice.pareto, ElementsAre(0));
  candidates[0] = Of("local", 1, 100, 0.1);  // The cost is a smaller number than the other candidate's time.
  EXPECT_EQ(Choose(candidates, {.deadline = 20, .budget = {}}).best, 1);
  candidates[1] = Of("mirrored", 4, 300, 4);
  EXPECT_EQ(Choose(candidates, {.deadline = 20, .budget = {}}).best, 0);
}

TEST(AdviceTest, PredictedCandidateWinsIfNoMeasuredOneMeetsTheGoal) {
  std::vector<Candidate> candidates = {Of("local", 1, 100, 1), Of("mirrored", 2, 190, 2),
                                       Of("mirrored", 4, 300, 4)};
  candidates[0].measured = {95};
  candidates[1].measured = {130};
  const Advice advice = Choose(candidates, {.deadline = 6.5, .budget = {}});
  EXPECT_EQ(advice.best, 2);
  EXPECT_TRUE(advice.met);
  EXPECT_EQ(Choose(candidates, {.deadline = 9, .budget = {}}).best, 1);
  EXPECT_EQ(Choose(candidates, {.deadline = 2, .budget = {}}).best, 1);  // No candidate meets the deadline.
}

TEST(AdviceTest, BestCandidateOfEachSynchronousStrategyIsVerifiedFirst) {
  const std::vector<Candidate> candidates = {Of("local", 1, 100),    Of("mirrored", 4, 300),
                                             Of("mirrored", 3, 295), Of("ps_sync", 3, 200),
                                             Of("ps_async", 3, 900), Of("mirrored", 2, 150)};
  EXPECT_THAT(ToVerify(candidates, {}, 8), ElementsAre(1, 3, 0, 2));
  EXPECT_THAT(ToVerify(candidates, {}, 2), ElementsAre(1, 3));
  EXPECT_THAT(ToVerify(candidates, {}, 0), IsEmpty());
}

TEST(AdviceTest, WorkerCountsGrowByLargerStepsBeyondEight) {
  EXPECT_THAT(NumbersUpTo(5), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(NumbersUpTo(100).back(), 100);
  EXPECT_LT(NumbersUpTo(100).size(), 40U);
  EXPECT_THAT(NumbersUpTo(0), IsEmpty());
  EXPECT_THAT(NumbersUpTo(20, 2), ElementsAre(1, 2, 3, 4, 6, 9, 13, 19, 20));
}

}  // namespace
}  // namespace tethys
