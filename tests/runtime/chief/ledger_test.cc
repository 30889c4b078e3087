#include "runtime/chief/ledger.h"

#include <gtest/gtest.h>

namespace tethys {
namespace {

TEST(LockStepLedgerTest, IsDoneWhenEveryPositionWasUsedInAnyOrder) {
  SampleLedger ledger({100, 130}, 0, 3);
  EXPECT_TRUE(ledger.Use(1, {110, 120}).ok());
  EXPECT_EQ(ledger.first_unused(), 100);
  EXPECT_TRUE(ledger.Use(0, {100, 110}).ok());
  EXPECT_EQ(ledger.first_unused(), 120);
  EXPECT_FALSE(ledger.all_used());
  EXPECT_TRUE(ledger.Use(2, {120, 130}).ok());
  EXPECT_TRUE(ledger.all_used());
}

TEST(LockStepLedgerTest, AWorkerWithoutSamplesUsesNone) {
  SampleLedger ledger({0, 4}, 0, 2);
  EXPECT_TRUE(ledger.Use(1, {4, 4}).ok());
  EXPECT_EQ(ledger.used_count(), 0);
}

TEST(LockStepLedgerTest, RefusesWhatWasUsedBefore) {
  SampleLedger ledger({0, 100}, 0, 1);
  ASSERT_TRUE(ledger.Use(0, {20, 40}).ok());
  for (const Slice again : {Slice{20, 40}, Slice{10, 21}, Slice{39, 50}, Slice{0, 100}, Slice{25, 30}}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(ledger.Use(0, again))) << again.begin;
  }
  EXPECT_EQ(ledger.used_count(), 20);
}

TEST(LockStepLedgerTest, RefusesWhatLiesOutside) {
  SampleLedger ledger({50, 60}, 0, 1);
  for (const Slice outside : {Slice{40, 51}, Slice{59, 61}, Slice{58, 52}}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(ledger.Use(0, outside))) << outside.begin;
  }
}

TEST(LeasingLedgerTest, LeasesAreConsecutiveBatchesAndTheLastIsShort) {
  SampleLedger ledger({10, 45}, 10, 1);
  std::vector<Slice> leases = ledger.Lease(0, 1);
  for (int i = 0; i < 3; ++i) {
    const std::vector<Slice> more = ledger.Lease(0, 1);
    leases.insert(leases.end(), more.begin(), more.end());
  }
  EXPECT_EQ(leases, (std::vector<Slice>{{10, 20}, {20, 30}, {30, 40}, {40, 45}}));
  EXPECT_TRUE(ledger.all_leased());
  EXPECT_TRUE(ledger.Lease(0, 1).empty());
}

TEST(LeasingLedgerTest, TheLastBatchesAreSpread) {
  SampleLedger ledger({0, 60}, 10, 3);
  EXPECT_EQ(ledger.Lease(0, 4).size(), 1u) << "six batches for three workers are not given to one";
  SampleLedger long_ledger({0, 1000}, 10, 3);
  EXPECT_EQ(long_ledger.Lease(0, 4).size(), 4u);
}

TEST(LeasingLedgerTest, OnlyTheHolderMayUseALeaseAndOnlyOnce) {
  SampleLedger ledger({0, 100}, 10, 2);
  const Slice lease = ledger.Lease(0, 1).at(0);
  EXPECT_TRUE(absl::IsFailedPrecondition(ledger.Use(1, lease)));
  EXPECT_TRUE(ledger.Use(0, lease).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(ledger.Use(0, lease)));
  EXPECT_TRUE(absl::IsFailedPrecondition(ledger.Use(0, {50, 60}))) << "nobody holds that lease";
}

}  // namespace
}  // namespace tethys
