// Time for ranks as threads that waits for each of them. It stands until all have joined; then it goes on by
// a tick whenever every rank has looked at its clock many times since the tick before. So who is waited for
// at a deadline is silent, and not merely kept waiting by a busy machine.
//
// Thread-safe; nothing blocks.
#ifndef TETHYS_TESTS_COLLECTIVES_LOCKSTEP_TIME_H_
#define TETHYS_TESTS_COLLECTIVES_LOCKSTEP_TIME_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"

namespace tethys {

class LockstepTime {
 public:
  LockstepTime(int ranks, Nanoseconds tick) : tick_(tick), looks_(ranks, 0) {
    for (int rank = 0; rank < ranks; ++rank) clocks_.push_back(std::make_unique<RankClock>(*this, rank));
  }

  const Clock& OfRank(int rank) const { return *clocks_[rank]; }
  void Join() {
    MutexLock lock(mu_);
    ++joined_;
  }
  // Time no longer waits for it.
  void Leave(int rank) {
    MutexLock lock(mu_);
    looks_[rank] = kGone;
  }

 private:
  // More than a rank needs to move all that it has to move, so that it stands still within a tick or two.
  static constexpr int64_t kLooksPerTick = 100;
  static constexpr int64_t kGone = INT64_MAX / 2;

  class RankClock final : public Clock {
   public:
    RankClock(LockstepTime& time, int rank) : time_(time), rank_(rank) {}
    Nanoseconds Now() const override { return time_.Look(rank_); }

   private:
    LockstepTime& time_;
    const int rank_;
  };

  Nanoseconds Look(int rank) {
    MutexLock lock(mu_);
    if (joined_ < static_cast<int>(looks_.size())) return now_;
    ++looks_[rank];
    for (const int64_t looks : looks_) {
      if (looks < kLooksPerTick) return now_;
    }
    for (int64_t& looks : looks_) looks = looks < kGone ? 0 : kGone;
    return now_ += tick_;
  }

  const Nanoseconds tick_;
  std::vector<std::unique_ptr<RankClock>> clocks_;

  Mutex mu_;
  int joined_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<int64_t> looks_ ABSL_GUARDED_BY(mu_);  // By rank, since the last tick.
  Nanoseconds now_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tethys

#endif  // TETHYS_TESTS_COLLECTIVES_LOCKSTEP_TIME_H_
