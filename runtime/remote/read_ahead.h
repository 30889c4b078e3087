// Decides how many blocks of a server's files are fetched ahead of readers who read from front to back: the
// fewest blocks that give the full rate. If answers take long to begin, or each connection is slow, several
// fetches at a time are faster. If the server is fast, the threads of several fetches only take processor
// time and cache from one another: for a server on the same machine, fetching four blocks ahead takes 1.2
// times the processor time of fetching one block ahead.
//
// The rate is measured over trains, which are runs of successive blocks. The first two trains fetch the most
// blocks ahead; the faster of the two gives the highest rate, since disturbances only make a train slower.
// Each further train fetches half as many blocks ahead (2, 1), as long as the rate is kept. The smallest
// number of blocks that kept the rate is used for the next kSettled blocks. Then the search begins again,
// since networks and readers change. One block is always fetched ahead, so that a reader who computes does
// not wait for a whole fetch.
#ifndef TETHYS_RUNTIME_REMOTE_READ_AHEAD_H_
#define TETHYS_RUNTIME_REMOTE_READ_AHEAD_H_

#include <atomic>
#include <cstdint>

#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"

namespace tethys {

// Thread-safe.
class ReadAhead {
 public:
  // The least number of blocks of a train, and the least time that a train takes.
  static constexpr int64_t kTrainBlocks = 16;
  static constexpr Nanoseconds kTrainTime = 20 * kMillisecond;
  static constexpr int64_t kSettled = 1024;  // Blocks between two searches.
  // A rate of at least this share of the highest rate counts as kept.
  static constexpr double kKept = 0.95;
  static constexpr Nanoseconds kPause = 1 * kSecond;  // A longer pause between two blocks restarts the train.

  explicit ReadAhead(int64_t most) : most_(most), blocks_(most), kept_(most) {}

  int64_t blocks() const { return blocks_.load(std::memory_order_relaxed); }

  // Call this when a reader has come to its next block.
  void Advance(Nanoseconds now);

 private:
  void Try(int64_t blocks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Judge(double rate) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int64_t most_;
  std::atomic<int64_t> blocks_;
  Mutex mu_;
  int64_t kept_ ABSL_GUARDED_BY(mu_);         // The fewest blocks ahead that kept the rate.
  double rate_ ABSL_GUARDED_BY(mu_) = 0;      // The highest rate of this search, in blocks per nanosecond.
  int64_t settled_ ABSL_GUARDED_BY(mu_) = 0;  // Blocks until the next search; 0: a search is going on.
  // How many of the next blocks are not timed, because they may have been fetched while another number of
  // blocks was fetched ahead.
  int64_t unlike_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t count_ ABSL_GUARDED_BY(mu_) = 0;  // Blocks of the present train so far.
  Nanoseconds begin_ ABSL_GUARDED_BY(mu_) = 0;
  Nanoseconds last_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_REMOTE_READ_AHEAD_H_
