#include "runtime/data/sharding.h"

#include <gtest/gtest.h>

#include <map>

namespace tethys {
namespace {

TEST(ShardingTest, FirstRanksGetOneMoreSampleIfABatchCannotBeSplitEvenly) {
  EXPECT_EQ(SplitSlice({0, 128}, 0, 5), (Slice{0, 26}));
  EXPECT_EQ(SplitSlice({0, 128}, 2, 5), (Slice{52, 78}));
  EXPECT_EQ(SplitSlice({0, 128}, 3, 5), (Slice{78, 103}));
  EXPECT_EQ(SplitSlice({0, 128}, 4, 5), (Slice{103, 128}));
}

TEST(ShardingTest, FewerSamplesThanRanksLeaveTheLastRanksEmpty) {
  EXPECT_EQ(SplitSlice({10, 12}, 1, 4), (Slice{11, 12}));
  EXPECT_EQ(SplitSlice({10, 12}, 2, 4).count(), 0);
  EXPECT_EQ(SplitSlice({10, 12}, 3, 4), (Slice{12, 12}));
}

TEST(ShardingTest, ShortLastBatchOfAnEpochIsKeptOrDropped) {
  EXPECT_EQ(StepsPerEpoch(54000, 128, false), 422);
  EXPECT_EQ(StepsPerEpoch(54000, 128, true), 421);
  EXPECT_EQ(SamplesPerEpoch(54000, 128, false), 54000);
  EXPECT_EQ(SamplesPerEpoch(54000, 128, true), 53888);
  EXPECT_EQ(StepsPerEpoch(100, 128, false), 1);
  EXPECT_EQ(StepsPerEpoch(100, 128, true), 0);
  EXPECT_EQ(StepsPerEpoch(256, 128, false), 2);
  EXPECT_EQ(StepSlice(54000, 128, 421), (Slice{53888, 54000}));
}

TEST(ShardingTest, ShortLastBatchIsSplitEvenlyAmongRanks) {
  // 112 samples over 5 ranks give 23, 23, 22, 22 and 22 samples.
  EXPECT_EQ(StepSlice(54000, 128, 421, 1, 5), (Slice{53911, 53934}));
  EXPECT_EQ(StepSlice(54000, 128, 421, 2, 5), (Slice{53934, 53956}));
}

TEST(ShardingTest, EveryPositionIsUsedOnceForAnyBatchAndNumberOfRanks) {
  for (const int64_t world : {1, 2, 3, 5, 16}) {
    for (const int64_t global_batch : {16, 37, 128}) {
      int64_t next = 0;
      for (int64_t step = 0; step < StepsPerEpoch(1000, global_batch, false); ++step) {
        for (int64_t rank = 0; rank < world; ++rank) {
          const Slice slice = StepSlice(1000, global_batch, step, rank, world);
          EXPECT_EQ(slice.begin, next);
          EXPECT_LE(slice.count(), (global_batch + world - 1) / world);
          next = slice.end;
        }
      }
      EXPECT_EQ(next, 1000);
    }
  }
}

TEST(ShardingTest, EvaluationSlicesCoverEverySampleOnce) {
  EXPECT_EQ(EvaluationSlice(10, 0, 3), (Slice{0, 4}));
  EXPECT_EQ(EvaluationSlice(10, 1, 3), (Slice{4, 7}));
  EXPECT_EQ(EvaluationSlice(10, 2, 3), (Slice{7, 10}));
}

TEST(ShardingTest, JobPositionCountsTheSamplesOfEarlierEpochs) {
  EXPECT_EQ(JobPosition(3, 54000, 17), 162017);
}

// Expects that every position has a rank and an index, and that the indices of a rank count its positions in
// ascending order without gaps.
void ExpectEveryPlaceOnce(const RankSplit& split) {
  std::map<int64_t, int64_t> next;
  for (int64_t position = 0; position < split.positions(); ++position) {
    const RankSplit::Place place = split.PlaceOf(position);
    ASSERT_TRUE(place.rank >= 0 && place.rank < split.world()) << place.rank;
    EXPECT_EQ(place.index, next[place.rank]++) << position;
  }
  for (int64_t rank = 0; rank < split.world(); ++rank) EXPECT_EQ(split.CountOf(rank), next[rank]) << rank;
}

TEST(RankSplitTest, EachRankNumbersItsPositionsInAscendingOrder) {
  for (const int64_t positions : {0, 1, 7, 12, 64, 101}) {
    for (const int64_t batch : {1, 2, 5, 12, 200}) {
      for (int64_t world = 1; world <= 5; ++world) {
        ExpectEveryPlaceOnce(RankSplit::OfSteps(positions, batch, world));
        ExpectEveryPlaceOnce(RankSplit::OfBatches(positions, batch, world));
      }
    }
  }
}

TEST(RankSplitTest, SplitByStepsGivesEachRankThePositionsOfItsStepSlices) {
  const RankSplit split = RankSplit::OfSteps(1000, 96, 5);
  for (int64_t step = 0; step < StepsPerEpoch(1000, 96, false); ++step) {
    for (int64_t rank = 0; rank < 5; ++rank) {
      const Slice own = StepSlice(1000, 96, step, rank, 5);
      for (int64_t position = own.begin; position < own.end; ++position) {
        EXPECT_EQ(split.PlaceOf(position).rank, rank) << position;
      }
    }
  }
}

}  // namespace
}  // namespace tethys
