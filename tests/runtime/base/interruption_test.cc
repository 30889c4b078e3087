#include "runtime/base/interruption.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace tethys {
namespace {

const absl::Status kFirst = absl::AbortedError("first");

TEST(Interruption, EveryCheckAfterRaise_ReturnsTheFirstStatus) {
  Interruption interruption;
  EXPECT_TRUE(interruption.Check().ok());
  interruption.Raise(kFirst);
  interruption.Raise(absl::CancelledError("second"));
  EXPECT_EQ(interruption.Check(), kFirst);
}

TEST(Interruption, WatchesAreCalledOnceWithTheStatus) {
  Interruption interruption;
  std::vector<absl::Status> before, after;
  const Interruption::Watch early(&interruption,
                                  [&](const absl::Status& status) { before.push_back(status); });
  {
    const Interruption::Watch gone(&interruption, [](const absl::Status&) { ADD_FAILURE(); });
  }
  interruption.Raise(kFirst);
  interruption.Raise(absl::CancelledError("second"));
  const Interruption::Watch late(&interruption, [&](const absl::Status& status) { after.push_back(status); });
  EXPECT_EQ(before, std::vector<absl::Status>{kFirst});
  EXPECT_EQ(after, std::vector<absl::Status>{kFirst});
}

TEST(Interruption, WatchWithoutAnInterruptionIsNeverCalled) {
  const Interruption::Watch watch(nullptr, [](const absl::Status&) { ADD_FAILURE(); });
}

TEST(Interruption, WatchIsNotCalledAfterItsEnd) {
  for (int turn = 0; turn < 100; ++turn) {
    Interruption interruption;
    std::atomic<bool> ended{false};
    std::thread other([&] { interruption.Raise(kFirst); });
    {
      const Interruption::Watch watch(&interruption, [&](const absl::Status&) { EXPECT_FALSE(ended); });
    }
    ended = true;
    other.join();
    EXPECT_EQ(interruption.Check(), kFirst);
  }
}

}  // namespace
}  // namespace tethys
