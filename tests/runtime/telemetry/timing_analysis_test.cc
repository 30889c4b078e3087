#include "runtime/telemetry/timing_analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tethys {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::Optional;

// The iteration times of one epoch, given in seconds.
IterationTimes Times(const std::vector<double>& seconds, int64_t epoch = 0) {
  IterationTimes times;
  for (const double s : seconds) times.Add(epoch, FromSeconds(s));
  return times;
}

TEST(TimingAnalysis, TmiAvgBetaAndEstimatesFollowTheirDefinitions) {
  // The first iteration takes 10 s. The ten after it take 25 s together, the twelve after it 36 s.
  const TimingAnalysis analysis =
      Analyse(Times({10, 2, 3, 4, 5, 6, 1, 1, 1, 1, 1, 4, 7}), /*validation_seconds=*/8);
  EXPECT_DOUBLE_EQ(analysis.first_iteration, 10);
  EXPECT_THAT(analysis.tmi_avg, Optional(DoubleEq(36.0 / 12)));
  EXPECT_THAT(analysis.beta, Optional(DoubleEq((10.0 + 8) / 36)));
  EXPECT_DOUBLE_EQ(analysis.estimates[0]->seconds, 2);
  EXPECT_DOUBLE_EQ(analysis.estimates[0]->error, 1.0 / 3);
  EXPECT_DOUBLE_EQ(analysis.estimates[1]->seconds, 20.0 / 5);
  EXPECT_DOUBLE_EQ(analysis.estimates[1]->error, 1.0 / 3);
  EXPECT_DOUBLE_EQ(analysis.estimates[2]->seconds, 25.0 / 10);
  EXPECT_DOUBLE_EQ(analysis.estimates[2]->error, 0.5 / 3);
}

TEST(TimingAnalysis, IterationsOfLaterEpochsCountForTmiAvgButNotForTheEstimates) {
  IterationTimes times = Times({10, 2, 2}, /*epoch=*/4);
  for (int i = 0; i < 20; ++i) times.Add(5, FromSeconds(3));
  const TimingAnalysis analysis = Analyse(times, 0);
  EXPECT_THAT(analysis.tmi_avg, Optional(DoubleEq(64.0 / 22)));
  EXPECT_DOUBLE_EQ(analysis.estimates[0]->seconds, 2);
  EXPECT_FALSE(analysis.estimates[1].has_value()) << "the first epoch has no iteration 6";
  EXPECT_FALSE(analysis.estimates[2].has_value());
}

TEST(TimingAnalysis, AverageAndEstimatesAreAbsentIfThereAreTooFewIterations) {
  EXPECT_FALSE(Analyse(Times({}), 1).beta.has_value());
  const TimingAnalysis one = Analyse(Times({10}), 1);
  EXPECT_DOUBLE_EQ(one.first_iteration, 10);
  EXPECT_FALSE(one.tmi_avg.has_value());
  EXPECT_FALSE(one.estimates[0].has_value());
  EXPECT_TRUE(Analyse(Times({10, 1}), 1).estimates[0].has_value());
}

TEST(TimingAnalysis, LockStepIterationTakesTheTimeOfItsSlowestWorker) {
  const IterationTimes slowest = IterationTimes::Slowest({Times({10, 2, 5}), Times({9, 3, 4}), Times({})});
  EXPECT_EQ(slowest.count(), 3);
  EXPECT_EQ(slowest.remaining_ns(), FromSeconds(17 - 10));
  EXPECT_THAT(slowest.early(), ElementsAre(FromSeconds(10), FromSeconds(3), FromSeconds(5)));
}

TEST(TimingAnalysis, MeanOfAnalysesLeavesOutWorkersWithoutAValue) {
  const TimingAnalysis mean =
      Mean({Analyse(Times({10, 2, 2}), 6), Analyse(Times({4, 4, 4}), 6), Analyse(Times({1}), 6)});
  EXPECT_DOUBLE_EQ(mean.first_iteration, 5);
  EXPECT_THAT(mean.tmi_avg, Optional(DoubleEq(3)));
  EXPECT_THAT(mean.beta, Optional(DoubleEq((16.0 / 4 + 10.0 / 8) / 2)));
  EXPECT_DOUBLE_EQ(mean.estimates[0]->seconds, 3);
  EXPECT_FALSE(mean.estimates[1].has_value());
  EXPECT_FALSE(Mean({}).tmi_avg.has_value());
}

}  // namespace
}  // namespace tethys
