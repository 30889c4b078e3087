#include "deploy/process/signal_source.h"

#include <gtest/gtest.h>

namespace tethys {
namespace {

class SignalSourceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const int number : {SIGINT, SIGTERM})
      signal(number, SIG_DFL);  // SIGINT may be ignored if the test runs as a background job.
  }
};

TEST_F(SignalSourceTest, InterruptsArriveInsteadOfEndingTheProcess) {
  SignalSource signals;
  EXPECT_EQ(signals.Next(), 0);
  raise(SIGTERM);
  EXPECT_EQ(signals.Next(), SIGTERM);
  EXPECT_EQ(signals.Next(), 0);
}

TEST_F(SignalSourceTest, InterruptThatWasNotTakenIsDiscardedUnlessInterruptsAreHeld) {
  {
    const SignalSource signals;
    raise(SIGINT);
  }
  EXPECT_FALSE(InterruptPending());
}

TEST_F(SignalSourceTest, InterruptThatWasNotTakenStaysPendingWhileInterruptsAreHeld) {
  InterruptsHeld held;
  {
    const SignalSource signals;
    raise(SIGINT);
  }
  EXPECT_TRUE(InterruptPending());
  held.ReleaseAndDiscard();
  EXPECT_FALSE(InterruptPending());
}

TEST_F(SignalSourceTest, InnerScopeThatHoldsInterruptsLeavesPendingOnesToTheOuterScope) {
  InterruptsHeld outer;
  {
    InterruptsHeld inner;
    raise(SIGINT);
    inner.ReleaseAndDiscard();
  }
  EXPECT_TRUE(InterruptPending());
  SignalSource signals;
  EXPECT_EQ(signals.Next(), SIGINT);
}

TEST_F(SignalSourceTest, TakenInterruptIsNoLongerPending) {
  InterruptsHeld held;
  EXPECT_EQ(TakeInterrupt(), 0);
  raise(SIGTERM);
  raise(SIGINT);
  EXPECT_EQ(TakeInterrupt() + TakeInterrupt(), SIGINT + SIGTERM);
  EXPECT_FALSE(InterruptPending());
  signal(SIGINT, SIG_IGN);
  raise(SIGINT);
  EXPECT_EQ(TakeInterrupt(), 0);
  signal(SIGINT, SIG_DFL);
  held.ReleaseAndDiscard();
}

}  // namespace
}  // namespace tethys
