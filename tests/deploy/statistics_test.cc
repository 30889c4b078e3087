#include "deploy/statistics.h"

#include <gtest/gtest.h>

namespace tethys {
namespace {

// Expected quantiles are from printed tables.
TEST(StatisticsTest, QuantileOf97Point5PercentAgreesWithPrintedTables) {
  EXPECT_DOUBLE_EQ(StudentQuantile975(1), 12.706);
  EXPECT_DOUBLE_EQ(StudentQuantile975(5), 2.571);
  EXPECT_NEAR(StudentQuantile975(6), 2.447, 0.02);
  EXPECT_NEAR(StudentQuantile975(10), 2.228, 0.005);
  EXPECT_NEAR(StudentQuantile975(30), 2.042, 0.001);
}

TEST(StatisticsTest, QuantileOf95PercentAgreesWithPrintedTables) {
  EXPECT_NEAR(StudentQuantile(kNormal95, 5), 2.015, 0.01);
  EXPECT_NEAR(StudentQuantile(kNormal95, 10), 1.812, 0.002);
  EXPECT_NEAR(StudentQuantile(kNormal95, 120), 1.658, 0.001);
}

}  // namespace
}  // namespace tethys
