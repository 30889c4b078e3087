#include "runtime/base/accept_pause.h"

#include <gtest/gtest.h>
#include <poll.h>

#include "runtime/base/socket.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/no_free_descriptors.h"

namespace tethys {
namespace {

// A listening socket with a connection in its queue.
class AcceptPauseTest : public ::testing::Test {
 protected:
  void SetUp() override {
    listener_ = *ListenTcp({"127.0.0.1", 0});
    caller_ = *StartConnectTcp(*LocalAddress(listener_.get()));
    pollfd queue = {listener_.get(), POLLIN, 0};
    ASSERT_EQ(poll(&queue, 1, -1), 1);
    // UndefinedBehaviorSanitizer checks the type of a clock at the first call, for which it needs a free
    // descriptor.
    ASSERT_FALSE(pause_.Accept(-1).valid());
    pause_.End();
  }
  void FailToAccept() {
    const testing::NoFreeDescriptors none;
    ASSERT_FALSE(pause_.Accept(listener_.get()).valid());
  }

  FakeClock clock_;
  FileDescriptor listener_, caller_;
  AcceptPause pause_{clock_};
};

TEST_F(AcceptPauseTest, AcceptedCallerStartsNoPause) {
  EXPECT_TRUE(pause_.Accept(listener_.get()).valid());
  EXPECT_FALSE(pause_.active());
  EXPECT_EQ(pause_.MillisecondsLeft(), -1);
}

TEST_F(AcceptPauseTest, EmptyQueueStartsNoPause) {
  EXPECT_TRUE(pause_.Accept(listener_.get()).valid());
  EXPECT_FALSE(pause_.Accept(listener_.get()).valid());
  EXPECT_FALSE(pause_.active());
}

TEST_F(AcceptPauseTest, FailureStartsAPauseThatTheClockEnds) {
  FailToAccept();
  EXPECT_TRUE(pause_.active());
  EXPECT_EQ(pause_.MillisecondsLeft(), 200);
  clock_.Advance(199 * kMillisecond + 1);
  EXPECT_TRUE(pause_.active());
  EXPECT_EQ(pause_.MillisecondsLeft(), 1);
  clock_.Advance(kMillisecond);
  EXPECT_FALSE(pause_.active());
  EXPECT_EQ(pause_.MillisecondsLeft(), -1);
  EXPECT_TRUE(pause_.Accept(listener_.get()).valid());
}

TEST_F(AcceptPauseTest, CallingEndStopsThePauseEarly) {
  FailToAccept();
  pause_.End();
  EXPECT_FALSE(pause_.active());
  EXPECT_EQ(pause_.MillisecondsLeft(), -1);
}

}  // namespace
}  // namespace tethys
