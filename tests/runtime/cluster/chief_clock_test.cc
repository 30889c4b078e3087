#include "runtime/cluster/chief_clock.h"

#include <gtest/gtest.h>

namespace tethys {
namespace {

constexpr Nanoseconds kAhead = 5 * kSecond;  // The chief's clock minus the task's, at the start.

TEST(ChiefClockTest, OffsetAndErrorAreZeroBeforeTheFirstPing) {
  const ChiefClock clock;
  EXPECT_EQ(clock.offset(), 0);
  EXPECT_EQ(clock.ErrorAt(kSecond), 0);
}

TEST(ChiefClockTest, PingGivesTheOffsetToWithinHalfItsRoundTrip) {
  ChiefClock clock;
  clock.Note(1000, 1400, kAhead + 1300);  // The ping takes 300 ns to the chief and 100 ns back.
  EXPECT_EQ(clock.offset(), kAhead + 100);
  EXPECT_EQ(clock.ErrorAt(1400), 200);
}

TEST(ChiefClockTest, OffsetComesFromTheFastestOfSeveralPings) {
  ChiefClock clock;
  clock.Note(1000, 1400, kAhead + 1300);
  clock.Note(2000, 2100, kAhead + 2050);
  clock.Note(3000, 3400, kAhead + 3300);
  EXPECT_EQ(clock.offset(), kAhead);
  EXPECT_EQ(clock.ErrorAt(3400), 50);
}

TEST(ChiefClockTest, OffsetFollowsAClockThatDrifts) {
  ChiefClock clock;
  clock.Note(0, 10 * kMicrosecond, kAhead + 5 * kMicrosecond);  // This ping is faster than all later pings.
  Nanoseconds now = 0;
  for (int ping = 0; ping < 3600; ++ping) {
    now += kSecond;
    const Nanoseconds drift = now / 100'000;
    clock.Note(now, now + 200 * kMicrosecond, now + kAhead + drift + 100 * kMicrosecond);
    EXPECT_NEAR(clock.offset(), kAhead + drift, clock.ErrorAt(now));
    EXPECT_LT(clock.ErrorAt(now), 400 * kMicrosecond);
  }
}

TEST(ChiefClockTest, AnswerThatArrivesBeforeItsPingWasSentIsIgnored) {
  ChiefClock clock;
  clock.Note(1000, 900, 950);
  EXPECT_EQ(clock.ErrorAt(1000), 0);
}

}  // namespace
}  // namespace tethys
