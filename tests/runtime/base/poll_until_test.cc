#include "runtime/base/poll_until.h"

#include <gtest/gtest.h>

namespace tethys {
namespace {

// Advances by a second whenever the clock is read.
class TickingClock final : public Clock {
 public:
  Nanoseconds Now() const override { return ++reads_ * kSecond; }
  int64_t reads() const { return reads_; }

 private:
  mutable int64_t reads_ = 0;
};

TEST(PollUntil, ConditionTrueAtTheFirstPollReadsNoClock) {
  TickingClock clock;
  EXPECT_TRUE(*PollUntil([] { return true; }, kSecond, clock));
  EXPECT_EQ(clock.reads(), 0);
}

TEST(PollUntil, ConditionTrueBeforeTheDeadlineEndsTheWait) {
  TickingClock clock;
  int polls = 0;
  EXPECT_TRUE(*PollUntil([&] { return ++polls == 3; }, 10 * kSecond, clock));
  EXPECT_EQ(polls, 3);
}

TEST(PollUntil, PassedDeadlineReturnsFalse) {
  TickingClock clock;
  int polls = 0;
  EXPECT_FALSE(*PollUntil([&] { return ++polls < 0; }, 5 * kSecond, clock));
  EXPECT_EQ(polls, 6) << "the first, and one for each second";
}

TEST(PollUntil, FailedPollEndsTheWaitWithItsError) {
  TickingClock clock;
  const auto fails = []() -> absl::StatusOr<bool> { return absl::AbortedError("gone"); };
  EXPECT_TRUE(absl::IsAborted(PollUntil(fails, kSecond, clock).status()));
}

}  // namespace
}  // namespace tethys
