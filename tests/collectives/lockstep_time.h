// A clock for tests that run ranks as threads. It stands still until all ranks have joined. Then it advances
// by one tick whenever every rank has read the clock a few times without transferring bytes. So a rank misses
// a deadline only if the rank is silent, and never because the machine is busy.
//
// Thread-safe; no call blocks.
#ifndef TETHYS_TESTS_COLLECTIVES_LOCKSTEP_TIME_H_
#define TETHYS_TESTS_COLLECTIVES_LOCKSTEP_TIME_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/communicator.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"

namespace tethys {

class LockstepTime {
 public:
  LockstepTime(int ranks, Nanoseconds tick) : tick_(tick), ranks_(ranks) {
    for (int rank = 0; rank < ranks; ++rank) clocks_.push_back(std::make_unique<RankClock>(*this, rank));
  }

  const Clock& OfRank(int rank) const { return *clocks_[rank]; }

  // Call Join before the first use of `communicator` and Leave after the last, on the thread that uses it.
  void Join(const Communicator& communicator) {
    MutexLock lock(mu_);
    ranks_[communicator.rank()].communicator = &communicator;
    ++joined_;
  }
  void Leave(const Communicator& communicator) {
    MutexLock lock(mu_);
    ranks_[communicator.rank()].communicator = nullptr;
  }

 private:
  static constexpr int kLooksPerTick = 10;

  class RankClock final : public Clock {
   public:
    RankClock(LockstepTime& time, int rank) : time_(time), rank_(rank) {}
    Nanoseconds Now() const override { return time_.Look(rank_); }

   private:
    LockstepTime& time_;
    const int rank_;
  };

  struct Rank {
    const Communicator* communicator = nullptr;  // Null before Join and after Leave.
    int64_t moved = 0;                           // Bytes transferred so far.
    int looks = 0;                               // Reads of the clock since the last transfer or tick.

    bool IsWaitedFor() const { return communicator != nullptr && looks < kLooksPerTick; }
  };

  Nanoseconds Look(int looking) {
    MutexLock lock(mu_);
    if (joined_ < static_cast<int>(ranks_.size())) return now_;
    Rank& rank = ranks_[looking];
    if (rank.communicator == nullptr) return now_;
    const TrafficCount traffic = rank.communicator->traffic();
    const int64_t moved = traffic.bytes_in + traffic.bytes_out;
    rank.looks = moved == rank.moved ? rank.looks + 1 : 0;
    rank.moved = moved;
    if (std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& each) { return each.IsWaitedFor(); })) {
      return now_;
    }
    for (Rank& each : ranks_) each.looks = 0;
    return now_ += tick_;
  }

  const Nanoseconds tick_;
  std::vector<std::unique_ptr<RankClock>> clocks_;

  Mutex mu_;
  int joined_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<Rank> ranks_ ABSL_GUARDED_BY(mu_);
  Nanoseconds now_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tethys

#endif  // TETHYS_TESTS_COLLECTIVES_LOCKSTEP_TIME_H_
