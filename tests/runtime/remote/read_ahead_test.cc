// Tests that no more blocks are fetched ahead than are needed for the full rate.
#include "runtime/remote/read_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace tethys {
namespace {

constexpr int64_t kMost = 4;

// A reader that takes the time `time_of(n)` for each block while n blocks are fetched ahead.
class Reader {
 public:
  explicit Reader(std::function<Nanoseconds(int64_t)> time_of) : time_of_(std::move(time_of)) {}

  void Read(int64_t blocks) {
    for (int64_t i = 0; i < blocks; ++i) {
      now_ += time_of_(ahead_.blocks());
      ahead_.Advance(now_);
    }
  }
  // Reads so many blocks that the search for the best number of blocks ahead ends. Returns that number.
  int64_t Settle() {
    Read(30 * ReadAhead::kTrainBlocks);
    return ahead_.blocks();
  }
  void Pause(Nanoseconds time) { now_ += time; }
  void Become(std::function<Nanoseconds(int64_t)> time_of) { time_of_ = std::move(time_of); }
  int64_t ahead() const { return ahead_.blocks(); }

 private:
  ReadAhead ahead_{kMost};
  std::function<Nanoseconds(int64_t)> time_of_;
  Nanoseconds now_ = 5 * kSecond;
};

constexpr Nanoseconds kTime = 2 * kMillisecond;

// A distant server: each fetch takes the same time, however many fetches there are.
Nanoseconds Distant(int64_t ahead) { return 20 * kTime / (1 + ahead); }
// A bounded rate: from two blocks ahead on, the network or the reader limits the rate.
Nanoseconds Bounded(int64_t ahead) { return std::max(2 * kTime, 6 * kTime / (1 + ahead)); }
// A near server: threads of several fetches disturb one another.
Nanoseconds Near(int64_t ahead) { return kTime + ahead * kTime / 10; }

TEST(ReadAheadTest, MostBlocksAreFetchedAheadFromADistantServer) {
  Reader reader(Distant);
  EXPECT_EQ(reader.ahead(), kMost);
  EXPECT_EQ(reader.Settle(), kMost);
}

TEST(ReadAheadTest, OneBlockIsFetchedAheadFromANearServer) { EXPECT_EQ(Reader(Near).Settle(), 1); }

TEST(ReadAheadTest, SearchSettlesOnTheFewestBlocksAheadThatGiveTheFullRate) {
  EXPECT_EQ(Reader(Bounded).Settle(), 2);
}

TEST(ReadAheadTest, BlocksFetchedBeforeTheNumberAheadChangesAreNotTimed) {
  // After the number of blocks ahead is lowered, several blocks are already fetched, and reading these takes
  // no time.
  int64_t last = kMost, there = 0;
  Reader reader([&](int64_t ahead) -> Nanoseconds {
    there = ahead < last ? kMost : there - 1;
    last = ahead;
    if (there > 0) return 1;
    return ahead == kMost ? 10 * kTime : 11 * kTime;
  });
  EXPECT_EQ(reader.Settle(), kMost);
}

TEST(ReadAheadTest, SlowFirstBlocksDoNotLowerTheNumberOfBlocksAhead) {
  int64_t blocks = 0;
  Reader reader([&](int64_t ahead) { return Distant(ahead) * (++blocks < ReadAhead::kTrainBlocks ? 5 : 1); });
  EXPECT_EQ(reader.Settle(), kMost);
}

TEST(ReadAheadTest, SearchForTheNumberOfBlocksAheadIsRepeatedAfterManyReads) {
  Reader reader(Near);
  EXPECT_EQ(reader.Settle(), 1);
  reader.Become(Distant);
  reader.Read(ReadAhead::kSettled);
  EXPECT_EQ(reader.Settle(), kMost);
  reader.Become(Near);
  reader.Read(ReadAhead::kSettled);
  EXPECT_EQ(reader.Settle(), 1);
}

TEST(ReadAheadTest, PauseOfTheReaderIsNotTakenForASlowServer) {
  Reader reader(Distant);
  reader.Read(ReadAhead::kTrainBlocks / 2);
  reader.Pause(100 * kSecond);
  EXPECT_EQ(reader.Settle(), kMost);
}

TEST(ReadAheadTest, NoBlockIsFetchedAheadIfNoneIsAllowed) {
  ReadAhead ahead(0);
  for (int64_t i = 0; i < 10 * ReadAhead::kTrainBlocks; ++i) ahead.Advance(i * kTime);
  EXPECT_EQ(ahead.blocks(), 0);
}

}  // namespace
}  // namespace tethys
