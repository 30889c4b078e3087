#include "runtime/remote/read_ahead.h"

#include <algorithm>

namespace tethys {

void ReadAhead::Advance(Nanoseconds now) {
  const MutexLock lock(mu_);
  const bool paused = now - last_ > kPause;
  last_ = now;
  if (settled_ > 0) {
    if (--settled_ == 0) {
      rate_ = 0;
      Try(most_);
    }
    return;
  }
  if (paused || unlike_ > 0) {
    unlike_ = std::max<int64_t>(unlike_ - 1, 0);
    count_ = 0;
    begin_ = now;
    return;
  }
  ++count_;
  const Nanoseconds taken = now - begin_;
  if (count_ >= kTrainBlocks && taken >= kTrainTime) {
    Judge(static_cast<double>(count_) / static_cast<double>(taken));
  }
}

void ReadAhead::Try(int64_t blocks) {
  blocks_.store(blocks, std::memory_order_relaxed);
  unlike_ = most_ + 1;
}

void ReadAhead::Judge(double rate) {
  const int64_t tried = blocks();
  if (tried == most_ && rate_ == 0) {
    rate_ = rate;
    count_ = 0;
    begin_ = last_;
    return;
  }
  if (tried != most_ && rate < kKept * rate_) {
    Try(kept_);
    settled_ = kSettled;
    return;
  }
  rate_ = std::max(rate, rate_);
  kept_ = tried;
  if (tried <= 1) {
    settled_ = kSettled;
  } else {
    Try(tried / 2);
  }
}

}  // namespace tethys
