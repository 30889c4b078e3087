// The board by itself: two ranks in one thread. The clock is the only thing that a waiting rank calls between
// its look at a peer's posts and its sleep, so a peer that posts from there posts at the worst moment.
#include "collectives/rank_board.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>

#include "gtest/gtest.h"

namespace tethys {
namespace {

// Runs `on_look` at every look, and moves so fast that a rank goes to sleep at once.
class LookedAtClock final : public Clock {
 public:
  explicit LookedAtClock(std::function<void(int look)> on_look) : on_look_(std::move(on_look)) {}
  Nanoseconds Now() const override {
    on_look_(++looks_);
    return now_ += kMillisecond;
  }
  void StartAgain() { looks_ = 0; }

 private:
  const std::function<void(int)> on_look_;
  mutable int looks_ = 0;
  mutable Nanoseconds now_ = 0;
};

// Of this thread so far; giving way to another thread does not count.
int64_t Sleeps() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

struct FreeMemory {
  void operator()(char* memory) const { std::free(memory); }
};

TEST(RankBoard, PostAfterTheLastLook_KeepsTheWaitingRankAwake) {
  const int64_t bytes = RankBoard::Bytes(2);
  const std::unique_ptr<char, FreeMemory> memory(static_cast<char*>(std::aligned_alloc(64, bytes)));
  std::fill_n(memory.get(), bytes, 0);
  RankBoardOptions options{.members = {"rank 0", "rank 1"}};
  std::unique_ptr<RankBoard> peer;
  int look_to_post_at = 0;
  LookedAtClock clock([&](int look) {
    if (look == look_to_post_at) peer->Post();
  });
  options.clock = &clock;
  RankBoard waiting(options, memory.get());
  options.rank = 1;
  peer = std::make_unique<RankBoard>(options, memory.get());
  waiting.WatchPeers();

  // The looks of one wait: two while it watches, one for the deadline, one before it sleeps. A page that has
  // to be read from the disk is a sleep, too: so each is tried several times.
  for (look_to_post_at = 1; look_to_post_at <= 4; ++look_to_post_at) {
    int64_t least = INT64_MAX;
    for (int turn = 0; turn < 5; ++turn) {
      ASSERT_TRUE(waiting.Begin({.kind = FrameKind::kBarrier}).ok());
      ASSERT_TRUE(peer->Begin({.kind = FrameKind::kBarrier}).ok());
      clock.StartAgain();
      const uint32_t number = waiting.Post();
      const int64_t before = Sleeps();
      ASSERT_TRUE(waiting.WaitForAll(number).ok());
      least = std::min(least, Sleeps() - before);
    }
    EXPECT_EQ(least, 0) << "posted at look " << look_to_post_at;
  }
}

}  // namespace
}  // namespace tethys
