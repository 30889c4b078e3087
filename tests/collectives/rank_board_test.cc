// Tests RankBoard (the shared memory in which each rank posts its progress) with two ranks in one thread.
// A waiting rank reads its peer's posts, reads the clock and then sleeps. So a peer that posts when the clock
// is read posts at the worst moment.
#include "collectives/rank_board.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tethys {
namespace {

// A clock that calls `on_look` whenever it is read. It advances so fast that a waiting rank stops spinning at
// once.
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

// How often this thread has slept so far: its voluntary context switches, without yields.
int64_t Sleeps() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

struct FreeMemory {
  void operator()(char* memory) const { std::free(memory); }
};

using BoardMemory = std::unique_ptr<char, FreeMemory>;

BoardMemory MemoryForTwo() {
  const int64_t bytes = RankBoard::Bytes(2);
  BoardMemory memory(static_cast<char*>(std::aligned_alloc(64, bytes)));
  std::fill_n(memory.get(), bytes, 0);
  return memory;
}

// A failing rank ends just before it writes its error. To end it there, the test lets it write only to the
// first part of the board, which says which rank failed first.
TEST(RankBoard, RankThatEndsBeforeItsErrorIsWritten_IsLost) {
  const auto page = static_cast<int64_t>(sysconf(_SC_PAGESIZE));
  const int64_t bytes = 2 * page + RankBoard::Bytes(2);
  void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  const auto unmap = [bytes](void* memory) { munmap(memory, bytes); };
  const std::unique_ptr<void, decltype(unmap)> mapping(pages, unmap);
  char* const ranks = static_cast<char*>(pages) + page;  // Where the ranks' cache lines begin.
  char* const memory = ranks - 64;
  const LookedAtClock clock([](int) {});
  RankBoardOptions options{.members = {"rank 0", "rank 1"}, .clock = &clock};
  RankBoard waiting(options, memory);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    options.rank = 1;
    options.step_timeout = 0;  // Fails at once, because rank 0 has not arrived.
    RankBoard failing(options, memory);
    failing.WatchPeers();
    if (!failing.Begin({.kind = FrameKind::kBarrier}).ok()) _exit(1);
    const uint32_t posted = failing.Post();
    mprotect(ranks, bytes - page, PROT_READ);
    _exit(failing.WaitForAll(posted).ok() ? 2 : 3);
  }
  siginfo_t end{};
  ASSERT_EQ(waitid(P_PID, child, &end, WEXITED | WNOWAIT), 0);
  ASSERT_EQ(end.si_status, SIGSEGV);
  waiting.WatchPeers();
  EXPECT_TRUE(waiting.Begin({.kind = FrameKind::kBarrier}).ok());
  ASSERT_TRUE(waiting.Meet().ok()) << "rank 1 had posted before";
  ASSERT_TRUE(waiting.Begin({.kind = FrameKind::kBarrier}).ok());
  const absl::Status lost = waiting.Meet();
  EXPECT_TRUE(absl::IsUnavailable(lost)) << lost;
  EXPECT_THAT(std::string(lost.message()), ::testing::HasSubstr("lost rank 1"));
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

TEST(RankBoard, InterruptedRank_PostsNothingMoreAndIsLost) {
  const BoardMemory memory = MemoryForTwo();
  LookedAtClock clock([](int) {});
  RankBoardOptions options{.members = {"rank 0", "rank 1"}, .clock = &clock};
  RankBoard waiting(options, memory.get());
  options.rank = 1;
  RankBoard interrupted(options, memory.get());
  waiting.WatchPeers();
  interrupted.WatchPeers();
  ASSERT_TRUE(waiting.Begin({.kind = FrameKind::kBarrier}).ok());
  ASSERT_TRUE(interrupted.Begin({.kind = FrameKind::kBarrier}).ok());
  const uint32_t posted = interrupted.Post();
  interrupted.Interrupt(absl::AbortedError("the group changes"));
  ASSERT_TRUE(waiting.WaitForAll(waiting.Post()).ok()) << "rank 1 had posted before";
  ASSERT_TRUE(interrupted.WaitForAll(posted).ok());
  EXPECT_TRUE(absl::IsAborted(interrupted.Begin({.kind = FrameKind::kBarrier})));
  ASSERT_TRUE(waiting.Begin({.kind = FrameKind::kBarrier}).ok());
  EXPECT_TRUE(absl::IsUnavailable(waiting.Meet()));
}

TEST(RankBoard, PostDuringWait_KeepsTheWaitingRankAwake) {
  const BoardMemory memory = MemoryForTwo();
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

  // One wait reads the clock four times: twice while it spins, once for the deadline, once before it sleeps.
  // Reading a page from disk counts as a sleep too, so each case is tried several times.
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
