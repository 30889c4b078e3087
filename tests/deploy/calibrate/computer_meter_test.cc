#include "deploy/calibrate/computer_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tethys {
namespace {

using ::testing::ElementsAre;

TEST(ComputerMeterTest, MeasuredBatchesRangeFromAWorkersPartToTwiceTheGlobalBatch) {
  const std::vector<int64_t> batches = BatchesToMeasure(128, 8);
  EXPECT_EQ(batches.front(), 16);
  EXPECT_EQ(batches.back(), 256);
  EXPECT_LE(batches.size(), 7U);
  EXPECT_THAT(BatchesToMeasure(1, 4), ElementsAre(1, 2));
}

TEST(ComputerMeterTest, NumbersOfRanksToMeasureAreAtMostTheSlots) {
  EXPECT_THAT(RanksToMeasure(2, 9), ElementsAre(2, 9));
  EXPECT_THAT(RanksToMeasure(16, 4), ElementsAre(2, 4));
  EXPECT_TRUE(RanksToMeasure(16, 1).empty());
}

}  // namespace
}  // namespace tethys
