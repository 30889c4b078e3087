#include "runtime/chief/lease_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<Slice> PositionsOf(const LeaseBook::Leases& leases) {
  std::vector<Slice> positions;
  for (const BatchLease& lease : leases.batches) positions.push_back(lease.positions);
  return positions;
}
std::vector<int64_t> ClocksOf(const LeaseBook::Leases& leases) {
  std::vector<int64_t> clocks;
  for (const BatchLease& lease : leases.batches) clocks.push_back(lease.clock);
  return clocks;
}

LeaseBook Opened(bool in_rounds, int workers, const std::vector<BatchLease>& batches) {
  LeaseBook book(in_rounds ? tethys::Batches::kInRounds : tethys::Batches::kOnDemand);
  for (int i = 0; i < workers; ++i) book.Join(i);
  book.Open(batches);
  return book;
}

// ----------------------------------------------------------------------------------- leases on demand

TEST(LeaseBookTest, LeasedBatchesAreConsecutiveAndTheLastOneIsShorter) {
  LeaseBook book = Opened(false, 1, SingleBatches({10, 45}, 10));
  std::vector<Slice> leases;
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(book.closed());
    for (const Slice lease : PositionsOf(book.Lease(0, 1))) leases.push_back(lease);
  }
  EXPECT_THAT(leases, ElementsAre(Slice{10, 20}, Slice{20, 30}, Slice{30, 40}, Slice{40, 45}));
  EXPECT_TRUE(book.closed());
  EXPECT_TRUE(book.Lease(0, 1).last);
}

TEST(LeaseBookTest, LastBatchesAreSpreadOverWorkers) {
  LeaseBook book = Opened(false, 3, SingleBatches({0, 60}, 10));
  EXPECT_EQ(book.Lease(0, 4).batches.size(), 1u) << "one worker does not get all of the last six batches";
  LeaseBook long_book = Opened(false, 3, SingleBatches({0, 1000}, 10));
  EXPECT_EQ(long_book.Lease(0, 4).batches.size(), 4u);
}

TEST(LeaseBookTest, LeasedBatchMayBeUsedOnceAndOnlyByTheWorkerThatHoldsIt) {
  LeaseBook book = Opened(false, 2, SingleBatches({0, 100}, 10));
  const Slice lease = PositionsOf(book.Lease(0, 1)).at(0);
  EXPECT_TRUE(absl::IsFailedPrecondition(book.Use(1, lease)));
  EXPECT_TRUE(absl::IsFailedPrecondition(book.Use(0, {lease.begin, lease.end - 1}))) << "a part of it";
  EXPECT_TRUE(book.Use(0, lease).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(book.Use(0, lease)));
  EXPECT_TRUE(absl::IsFailedPrecondition(book.Use(0, {50, 60}))) << "no worker holds that lease";
}

TEST(LeaseBookTest, AfterCutToDealt_OnlyBatchesOfLostWorkersAreLeased) {
  LeaseBook book = Opened(false, 2, SingleBatches({10, 1000}, 10));
  EXPECT_EQ(book.Lease(0, 2).batches.size(), 2u);
  const Slice kept = PositionsOf(book.Lease(1, 1)).at(0);
  EXPECT_EQ(book.CutToDealt(), 40);
  book.Leave(0);
  book.Settle(0, 1);
  EXPECT_THAT(PositionsOf(book.Lease(1, 4)), ElementsAre(Slice{10, 20}));
  EXPECT_THAT(PositionsOf(book.Lease(1, 4)), ElementsAre(Slice{20, 30}));
  EXPECT_TRUE(book.Lease(1, 4).last);
  EXPECT_EQ(kept, (Slice{30, 40}));
}

TEST(LeaseBookTest, CutBeforeAnyLease_EndsTheSegmentAtItsBegin) {
  LeaseBook book = Opened(false, 1, SingleBatches({10, 100}, 10));
  EXPECT_EQ(book.CutToDealt(), 10);
  EXPECT_TRUE(book.Lease(0, 1).last);
}

TEST(LeaseBookTest, AfterCutToDealt_AllWorkersGetTheRoundsAlreadyLeasedToTheFastest) {
  LeaseBook book = Opened(true, 2, BatchesOfSteps({0, 100}, 10, 2));
  EXPECT_THAT(ClocksOf(book.Lease(0, 3)), ElementsAre(0, 1, 2));
  EXPECT_EQ(book.CutToDealt(), 30);
  EXPECT_THAT(ClocksOf(book.Lease(1, 9)), ElementsAre(0, 1, 2));
  EXPECT_TRUE(book.Lease(0, 1).last);
}

// ------------------------------------------------------------------------------------ leases in rounds

TEST(LeaseBookTest, RoundsHaveTheBatchesOfBulkSynchronousSteps) {
  LeaseBook book = Opened(true, 3, BatchesOfSteps({0, 20}, 8, 3));
  for (int worker = 2; worker >= 0; --worker) {
    const LeaseBook::Leases leases = book.Lease(worker, 4);
    std::vector<Slice> expected;
    for (int step = 0; step < 3; ++step) expected.push_back(StepSlice(20, 8, step, worker, 3));
    EXPECT_EQ(PositionsOf(leases), expected) << worker;
    EXPECT_THAT(ClocksOf(leases), ElementsAre(0, 1, 2));
    EXPECT_TRUE(leases.last);
  }
}

TEST(LeaseBookTest, WorkerWithoutABatchInTheLastRoundGetsAnEmptyBatch) {
  LeaseBook book = Opened(true, 3, BatchesOfSteps({0, 8}, 6, 3));
  EXPECT_THAT(PositionsOf(book.Lease(2, 4)), ElementsAre(Slice{4, 6}, Slice{8, 8}));
  EXPECT_TRUE(book.Use(2, {8, 8}).ok());
}

TEST(LeaseBookTest, JoiningWorkerTakesPartFromNextRound) {
  LeaseBook book = Opened(true, 2, BatchesOfSteps({0, 100}, 10, 2));
  book.Lease(0, 4);
  book.Join(2);
  EXPECT_EQ(book.next_round(), 4);
  EXPECT_THAT(ClocksOf(book.Lease(2, 2)), ElementsAre(4, 5));
  EXPECT_THAT(ClocksOf(book.Lease(1, 6)), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(LeaseBookTest, RoundNumbersOfWorkersContinueInTheNextSegment) {
  LeaseBook book = Opened(true, 1, BatchesOfSteps({0, 10}, 10, 1));
  EXPECT_THAT(ClocksOf(book.Lease(0, 4)), ElementsAre(0));
  ASSERT_TRUE(book.Use(0, {0, 10}).ok());
  book.Open(BatchesOfSteps({10, 20}, 10, 1));
  EXPECT_THAT(ClocksOf(book.Lease(0, 4)), ElementsAre(1));
}

// --------------------------------------------------------------------------------- batches with owners

// Batches of ten samples, which belong to workers 0 and 1 in turn.
std::vector<BatchLease> InTurns(Slice segment) {
  std::vector<BatchLease> batches = SingleBatches(segment, 10);
  for (size_t i = 0; i < batches.size(); ++i) batches[i].owner = static_cast<int>(i % 2);
  return batches;
}

TEST(LeaseBookTest, WorkersThatOwnBatchesGetOnlyTheirOwnBatchesInOrder) {
  LeaseBook book = Opened(false, 2, InTurns({0, 60}));
  EXPECT_THAT(PositionsOf(book.Lease(0, 2)), ElementsAre(Slice{0, 10}, Slice{20, 30}));
  const LeaseBook::Leases end = book.Lease(0, 4);
  EXPECT_THAT(PositionsOf(end), ElementsAre(Slice{40, 50}));
  EXPECT_TRUE(end.last);
  EXPECT_FALSE(book.closed()) << "the other worker has batches left";
  EXPECT_THAT(PositionsOf(book.Lease(1, 4)), ElementsAre(Slice{10, 20}, Slice{30, 40}, Slice{50, 60}));
}

TEST(LeaseBookTest, BatchesOfALostOwnerGoToOtherWorkersAfterTheirOwnBatches) {
  LeaseBook book = Opened(false, 2, InTurns({0, 60}));
  book.Lease(1, 1);
  book.Leave(1);
  book.Settle(1, 1);
  std::vector<Slice> leased;
  LeaseBook::Leases leases;
  while (!leases.last) {
    leases = book.Lease(0, 4);
    for (const Slice positions : PositionsOf(leases)) leased.push_back(positions);
  }
  EXPECT_THAT(leased, ElementsAre(Slice{0, 10}, Slice{20, 30}, Slice{40, 50}, Slice{10, 20}, Slice{30, 40},
                                  Slice{50, 60}));
}

TEST(LeaseBookTest, ReplacementGetsTheRemainingBatchesOfTheLostOwner) {
  LeaseBook book = Opened(false, 2, InTurns({0, 60}));
  book.Leave(1);
  book.Join(1);
  while (!book.Lease(0, 4).last) continue;
  EXPECT_EQ(book.Lease(1, 4).batches.size(), 3u);
}

TEST(LeaseBookTest, BatchesOfAnOwnerLostAfterTheLastLease_AreLeasedOnlyAfterReopen) {
  LeaseBook book = Opened(false, 2, InTurns({0, 40}));
  EXPECT_TRUE(book.Lease(0, 4).last);
  EXPECT_TRUE(book.Lease(1, 4).last);
  book.Leave(1);
  book.Settle(1, 1);
  EXPECT_THAT(book.Lease(0, 4).batches, IsEmpty());
  EXPECT_TRUE(book.has_free());
  book.Reopen();
  EXPECT_THAT(PositionsOf(book.Lease(0, 4)), ElementsAre(Slice{10, 20}));
}

TEST(LeaseBookTest, AfterCutToDealt_EarlierBatchesOfSlowOwnersAreLeasedToAllWorkers) {
  LeaseBook book = Opened(false, 2, InTurns({0, 200}));
  book.Lease(0, 3);
  EXPECT_EQ(book.CutToDealt(), 50);
  EXPECT_THAT(PositionsOf(book.Lease(0, 1)), ElementsAre(Slice{10, 20}));
  EXPECT_THAT(PositionsOf(book.Lease(1, 4)), ElementsAre(Slice{30, 40}));
  EXPECT_TRUE(book.Lease(0, 4).last);
}

TEST(LeaseBookTest, WorkerWithFewerBatchesLeft_GetsEmptyBatchesInTheLastRounds) {
  LeaseBook book = Opened(true, 2, InTurns({0, 40}));
  book.Leave(1);
  EXPECT_THAT(PositionsOf(book.Lease(0, 1)), ElementsAre(Slice{0, 10}));
  book.Join(1);
  EXPECT_THAT(PositionsOf(book.Lease(0, 4)), ElementsAre(Slice{20, 30}, Slice{40, 40}));
  EXPECT_THAT(PositionsOf(book.Lease(1, 4)), ElementsAre(Slice{10, 20}, Slice{30, 40}));
}

// ---------------------------------------------------------------------------------------- lost workers

// Worker 0 of two is lost while it holds the batches [0, 10), [10, 20) and [20, 30). There are two servers.
class SettlementTest : public ::testing::Test {
 protected:
  void SetUp() override {
    book_.Join(0);
    book_.Join(1);
    book_.Open(SingleBatches({0, 120}, 10));
    ASSERT_EQ(book_.Lease(0, 3).batches.size(), 3u);
    book_.Leave(0);
  }
  LeaseBook book_{tethys::Batches::kOnDemand};
};

TEST_F(SettlementTest, BatchesAppliedByNoServerAreTheNextToBeLeased) {
  EXPECT_EQ(book_.Settle(0, 2).returned, 3);
  EXPECT_EQ(PositionsOf(book_.Lease(1, 2)), (std::vector<Slice>{{0, 10}, {10, 20}}));
}

TEST_F(SettlementTest, BatchAppliedByAllServersCountsAsUsed) {
  book_.Applied(0, {0, 10});
  book_.Applied(1, {0, 10});
  const LeaseBook::Settlement settlement = book_.Settle(0, 2);
  EXPECT_THAT(settlement.applied, ElementsAre(Slice{0, 10}));
  EXPECT_THAT(settlement.torn, IsEmpty());
  EXPECT_EQ(settlement.returned, 2);
}

TEST_F(SettlementTest, BatchAppliedBySomeServersIsTornAndNotLeased) {
  book_.Applied(1, {10, 20});
  const LeaseBook::Settlement settlement = book_.Settle(0, 2);
  ASSERT_EQ(settlement.torn.size(), 1u);
  EXPECT_EQ(settlement.torn[0].positions, (Slice{10, 20}));
  EXPECT_THAT(settlement.torn[0].servers, ElementsAre(1));
  EXPECT_EQ(PositionsOf(book_.Lease(1, 2)), (std::vector<Slice>{{0, 10}, {20, 30}}));
}

TEST_F(SettlementTest, ClosedBookLeasesNothingUntilReopened) {
  while (!book_.Lease(1, 4).last) continue;
  book_.Settle(0, 2);
  EXPECT_THAT(book_.Lease(1, 4).batches, IsEmpty());
  EXPECT_TRUE(book_.has_free());
  book_.Reopen();
  EXPECT_FALSE(book_.Lease(1, 4).batches.empty());
}

TEST_F(SettlementTest, UnleasedBatchesOfALostWorkersRoundsAreLeasedToOtherWorkers) {
  LeaseBook book = Opened(true, 2, BatchesOfSteps({0, 80}, 10, 2));
  book.Lease(0, 4);
  book.Leave(1);
  EXPECT_TRUE(book.has_free());
  EXPECT_THAT(PositionsOf(book.Lease(0, 4)),
              ElementsAre(Slice{5, 10}, Slice{15, 20}, Slice{25, 30}, Slice{35, 40}));
}

}  // namespace
}  // namespace tethys
