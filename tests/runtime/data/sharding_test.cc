#include "runtime/data/sharding.h"

#include <gtest/gtest.h>

#include <set>

namespace tethys {
namespace {

TEST(EpochOrderTest, IsAPermutation) {
  const EpochOrder order(7, 0, 1000);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < order.size(); ++i) seen.insert(order[i]);
  EXPECT_EQ(seen.size(), 1000);
  EXPECT_EQ(*seen.rbegin(), 999);
}

TEST(EpochOrderTest, DependsOnSeedAndEpochOnly) {
  const auto differs = [](const EpochOrder& a, const EpochOrder& b) {
    for (int64_t i = 0; i < a.size(); ++i) {
      if (a[i] != b[i]) return true;
    }
    return false;
  };
  EXPECT_FALSE(differs(EpochOrder(7, 3, 100), EpochOrder(7, 3, 100)));
  EXPECT_TRUE(differs(EpochOrder(7, 3, 100), EpochOrder(7, 4, 100)));
  EXPECT_TRUE(differs(EpochOrder(7, 3, 100), EpochOrder(8, 3, 100)));
}

TEST(EpochOrderTest, OrderOfVeryManySamplesIsComputedAndHoldsNoMemory) {
  constexpr int64_t kSamples = 1'000'000'000'000;
  EXPECT_EQ(EpochOrder::BytesHeld(kSamples), 0);
  EXPECT_EQ(EpochOrder::BytesHeld(EpochOrder::kMostHeld), EpochOrder::kMostHeld * 4);
  const EpochOrder order(1, 2, kSamples), same(1, 2, kSamples), next(1, 3, kSamples);
  EXPECT_EQ(order.size(), kSamples);
  std::set<int64_t> samples;
  int differences = 0;
  for (int64_t position = kSamples - 1000; position < kSamples; ++position) {
    EXPECT_TRUE(order[position] >= 0 && order[position] < kSamples);
    EXPECT_EQ(order[position], same[position]);
    if (order[position] != next[position]) ++differences;
    samples.insert(order[position]);
  }
  EXPECT_EQ(samples.size(), 1000u);
  EXPECT_GT(differences, 990);
}

TEST(EpochOrdersTest, SameEpochAgain_ReusesTheOrder) {
  EpochOrders orders(7, 100);
  const auto order = orders.Of(3);
  EXPECT_EQ(orders.Of(3), order);
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ((*order)[i], EpochOrder(7, 3, 100)[i]);
}

TEST(EpochOrdersTest, AnotherEpoch_ReleasesThePreviousOrder) {
  EpochOrders orders(7, 100);
  const std::weak_ptr<const EpochOrder> before = orders.Of(3);
  orders.Of(4);
  EXPECT_TRUE(before.expired());
}

TEST(ShardingTest, FirstRanksTakeOneMoreSampleIfTheSplitIsUneven) {
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

TEST(ShardingTest, ShortBatchIsSplitEvenlyAmongRanks) {
  // 112 samples over 5 ranks: 23, 23, 22, 22, 22.
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

TEST(ShardingTest, EvaluationCoversEverySampleOnce) {
  EXPECT_EQ(EvaluationSlice(10, 0, 3), (Slice{0, 4}));
  EXPECT_EQ(EvaluationSlice(10, 1, 3), (Slice{4, 7}));
  EXPECT_EQ(EvaluationSlice(10, 2, 3), (Slice{7, 10}));
}

TEST(ShardingTest, JobPositionCountsTheSamplesOfEarlierEpochs) {
  EXPECT_EQ(JobPosition(3, 54000, 17), 162017);
}

}  // namespace
}  // namespace tethys
