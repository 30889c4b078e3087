#include "deploy/hosts/link_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <future>

#include "tests/testing/no_free_descriptors.h"
#include "tests/testing/sanitized.h"

namespace tethys {
namespace {

JobSecret Secret() { return {JobToken::Random(), "check"}; }

std::unique_ptr<LinkListener> Listen(const JobSecret& secret, const Clock* clock = nullptr) {
  absl::StatusOr<std::unique_ptr<LinkListener>> listener = LinkListener::Start(secret, "127.0.0.1", clock);
  EXPECT_TRUE(listener.ok()) << listener.status();
  return *std::move(listener);
}

TEST(LinkMeterTest, SpeedIsMeasuredInBothDirections) {
  const JobSecret secret = Secret();
  const std::unique_ptr<LinkListener> listener = Listen(secret);
  const absl::StatusOr<LinkSpeed> speed = MeasureLink(secret, listener->address());
  ASSERT_TRUE(speed.ok()) << speed.status();
  EXPECT_GT(speed->round_trip, 0);
  EXPECT_GT(speed->there, 0);
  EXPECT_GT(speed->back, 0);
}

TEST(LinkMeterTest, CallerWithWrongTokenIsRefusedAndTheNextIsServed) {
  const JobSecret secret = Secret();
  const std::unique_ptr<LinkListener> listener = Listen(secret);
  EXPECT_TRUE(absl::IsUnavailable(MeasureLink(Secret(), listener->address()).status()));
  EXPECT_TRUE(MeasureLink(secret, listener->address()).ok());
}

TEST(LinkMeterTest, CallerOfAnotherJobIsRefused) {
  JobSecret secret = Secret();
  const std::unique_ptr<LinkListener> listener = Listen(secret);
  secret.job_id = "another";
  EXPECT_TRUE(absl::IsUnavailable(MeasureLink(secret, listener->address()).status()));
}

TEST(LinkMeterTest, SilentCallerDoesNotBlockOthers) {
  const JobSecret secret = Secret();
  const std::unique_ptr<LinkListener> listener = Listen(secret);
  const absl::StatusOr<FileDescriptor> silent = StartConnectTcp(listener->address());
  ASSERT_TRUE(silent.ok());
  EXPECT_TRUE(MeasureLink(secret, listener->address()).ok());
}

// A clock that signals when it is first read, and advances only by Advance.
class WatchedClock final : public Clock {
 public:
  Nanoseconds Now() const override {
    const Nanoseconds now = now_;  // Read before `first_` allows the test to advance the clock.
    if (!read_.exchange(true)) first_.set_value();
    return now;
  }
  void AwaitFirst() { first_.get_future().wait(); }
  void Advance(Nanoseconds by) { now_ += by; }

 private:
  mutable std::atomic<bool> read_ = false;
  mutable std::promise<void> first_;
  std::atomic<Nanoseconds> now_ = kSecond;
};

TEST(LinkMeterTest, CallerIsServedAfterAPauseIfAcceptFailsAtFirst) {
  if (TETHYS_ADDRESS_SANITIZED) {
    GTEST_SKIP() << "UndefinedBehaviorSanitizer needs descriptors to examine objects";
  }
  WatchedClock clock;
  const std::unique_ptr<LinkListener> listener = Listen(Secret(), &clock);
  absl::StatusOr<FileDescriptor> caller;
  {
    const testing::NoFreeDescriptors all_but_one(1);
    caller = StartConnectTcp(listener->address());
    ASSERT_TRUE(caller.ok()) << caller.status();
    clock.AwaitFirst();  // Waits until the listener has failed to accept and begins its pause.
  }
  pollfd answer = {caller->get(), POLLIN, 0};
  EXPECT_EQ(poll(&answer, 1, 0), 0);
  clock.Advance(kSecond);
  EXPECT_EQ(poll(&answer, 1, -1), 1);
}

TEST(BurstTest, BurstBytesAreComputedFromTheTimeOfABlock) {
  const double size = kBlockBytes;
  LinkSpeed speed{.round_trip = 0.002, .there = 1e6};
  speed.block = 0.001 + (size - 20'000) / speed.there;
  EXPECT_NEAR(BurstBytes(speed), 20'000, 1);
  speed.block *= 2;
  EXPECT_EQ(BurstBytes(speed), 0);
  speed.block = 0;
  EXPECT_EQ(BurstBytes(speed), size / 2);
}

TEST(LinkMeterTest, MissingListenerIsError) {
  const JobSecret secret = Secret();
  std::unique_ptr<LinkListener> listener = Listen(secret);
  const HostPort address = listener->address();
  listener.reset();
  EXPECT_FALSE(MeasureLink(secret, address).ok());
}

TEST(LinkMeterTest, DestructorEndsListenerWhileItServes) {
  const JobSecret secret = Secret();
  std::unique_ptr<LinkListener> listener = Listen(secret);
  const absl::StatusOr<FileDescriptor> silent = StartConnectTcp(listener->address());
  ASSERT_TRUE(silent.ok());
  listener.reset();
}

}  // namespace
}  // namespace tethys
