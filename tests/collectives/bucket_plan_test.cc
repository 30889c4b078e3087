#include "collectives/bucket_plan.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<Bucket> Plan(std::vector<Range> ready_order, int64_t bucket_elements) {
  return *PlanBuckets(ready_order, bucket_elements, bucket_elements);
}

TEST(BucketPlan, AdjacentRangesFillABucket) {
  EXPECT_THAT(Plan({{96, 32}, {64, 32}, {32, 32}, {0, 32}}, 64),
              ElementsAre(Bucket{{64, 64}, 1}, Bucket{{0, 64}, 3}));
}

TEST(BucketPlan, FirstBucketHasTheSizeGivenForIt) {
  EXPECT_THAT(
      *PlanBuckets({{96, 32}, {64, 32}, {32, 32}, {0, 32}}, /*bucket_elements=*/96, /*first_elements=*/32),
      ElementsAre(Bucket{{96, 32}, 0}, Bucket{{0, 96}, 3}));
}

TEST(BucketPlan, LastBucketMayBeSmall) {
  EXPECT_THAT(Plan({{32, 64}, {0, 32}}, 64), ElementsAre(Bucket{{32, 64}, 0}, Bucket{{0, 32}, 1}));
}

TEST(BucketPlan, PaddingBetweenAdjacentRangesIsIncluded) {
  // The arena holds [0, 10), padding up to 16, and [16, 36).
  EXPECT_THAT(Plan({{16, 20}, {0, 10}}, 1000), ElementsAre(Bucket{{0, 36}, 1}));
}

TEST(BucketPlan, RangeLargerThanBucketIsNotSplit) {
  EXPECT_THAT(Plan({{1000, 100}, {0, 1000}}, 50), ElementsAre(Bucket{{1000, 100}, 0}, Bucket{{0, 1000}, 1}));
}

TEST(BucketPlan, RangesThatAreNotAdjacentGetSeparateBuckets) {
  EXPECT_THAT(Plan({{64, 16}, {0, 16}, {32, 16}}, 1000),
              ElementsAre(Bucket{{64, 16}, 0}, Bucket{{0, 16}, 1}, Bucket{{32, 16}, 2}));
}

TEST(BucketPlan, NoRangesGiveNoBuckets) { EXPECT_THAT(Plan({}, 64), IsEmpty()); }

TEST(BucketPlan, EmptyAndOverlappingRangesAreRefused) {
  const std::vector<std::vector<Range>> bad = {{{0, 0}}, {{-1, 4}}, {{0, 10}, {9, 4}}, {{8, 8}, {0, 16}}};
  for (const std::vector<Range>& ranges : bad) {
    EXPECT_EQ(PlanBuckets(ranges, 64, 64).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace tethys
