#include "runtime/chief/ledger.h"

#include <gtest/gtest.h>

namespace tethys {
namespace {

TEST(SampleLedgerTest, SegmentIsCompleteOnceAllPositionsAreUsedInAnyOrder) {
  SampleLedger ledger({100, 130});
  EXPECT_TRUE(ledger.Use(1, {110, 120}).ok());
  EXPECT_EQ(ledger.first_unused(), 100);
  EXPECT_TRUE(ledger.Use(0, {100, 110}).ok());
  EXPECT_EQ(ledger.first_unused(), 120);
  EXPECT_FALSE(ledger.all_used());
  EXPECT_TRUE(ledger.Use(2, {120, 130}).ok());
  EXPECT_TRUE(ledger.all_used());
}

TEST(SampleLedgerTest, UseOfAnEmptySliceIsAcceptedAndNotCounted) {
  SampleLedger ledger({0, 4});
  EXPECT_TRUE(ledger.Use(1, {4, 4}).ok());
  EXPECT_EQ(ledger.used_count(), 0);
}

TEST(SampleLedgerTest, SecondUseOfAPositionIsRefused) {
  SampleLedger ledger({0, 100});
  ASSERT_TRUE(ledger.Use(0, {20, 40}).ok());
  for (const Slice again : {Slice{20, 40}, Slice{10, 21}, Slice{39, 50}, Slice{0, 100}, Slice{25, 30}}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(ledger.Use(0, again))) << again.begin;
  }
  EXPECT_EQ(ledger.used_count(), 20);
}

TEST(SampleLedgerTest, UseOfPositionsOutsideTheSegmentIsRefused) {
  SampleLedger ledger({50, 60});
  for (const Slice outside : {Slice{40, 51}, Slice{59, 61}, Slice{58, 52}}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(ledger.Use(0, outside))) << outside.begin;
  }
}

}  // namespace
}  // namespace tethys
