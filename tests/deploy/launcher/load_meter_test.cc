#include "deploy/launcher/load_meter.h"

#include <gtest/gtest.h>

namespace tethys {
namespace {

TEST(OthersShareTest, ShareIsTheBusyTimeOfOthersOverTheTimeOfAllCores) {
  const CpuMark begin = {.at_ns = kSecond, .busy_ns = 50 * kSecond, .own_ns = kSecond, .cores = 2};
  const CpuMark end = {.at_ns = 2 * kSecond, .busy_ns = 52 * kSecond, .own_ns = 2 * kSecond, .cores = 2};
  EXPECT_DOUBLE_EQ(OthersShare(begin, end).value(), 0.5);
}

TEST(OthersShareTest, CoarseClockGivesNoNegativeShare) {
  const CpuMark begin = {.cores = 2};
  const CpuMark end = {.at_ns = kSecond, .busy_ns = kSecond, .own_ns = kSecond + 1, .cores = 2};
  EXPECT_EQ(OthersShare(begin, end).value(), 0);
  EXPECT_FALSE(OthersShare(begin, {.at_ns = kMillisecond, .cores = 2}).has_value());
}

TEST(CpuMarkTest, OwnTimeGrowsWithTheWorkOfThisProcess) {
  const CpuMark begin = ReadCpuMark().value();
  volatile int64_t sum = 0;
  CpuMark end = begin;
  while (end.own_ns - begin.own_ns < 20 * kMillisecond) {
    for (int i = 0; i < 1000000; ++i) sum = sum + i;
    end = ReadCpuMark().value();
  }
  EXPECT_GT(end.at_ns, begin.at_ns);
  EXPECT_GE(end.cores, 1);
}

}  // namespace
}  // namespace tethys
