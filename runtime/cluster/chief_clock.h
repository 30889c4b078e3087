// The chief's clock as a task knows it, from its pings (Cristian 1989). Pure; thread-compatible.
//
// A ping that takes r there and back tells the chief's time to within r / 2. What it told grows old, because
// the oscillators of two machines differ: so the ping that counts is the one of least error now.
#ifndef TETHYS_RUNTIME_CLUSTER_CHIEF_CLOCK_H_
#define TETHYS_RUNTIME_CLUSTER_CHIEF_CLOCK_H_

#include "runtime/base/clock.h"

namespace tethys {

class ChiefClock {
 public:
  // Two machines' clocks are taken to part by one such part of the time passed: 15 us a second, as in NTP
  // (RFC 5905, PHI).
  static constexpr int64_t kDriftFraction = 66'667;

  // A ping left at `sent` and its answer, which says `chief_now`, came at `received`. One that came before it
  // left is not heeded.
  void Note(Nanoseconds sent, Nanoseconds received, Nanoseconds chief_now);

  // The chief's clock minus the task's; 0 before the first ping.
  Nanoseconds offset() const { return offset_; }
  // How far off that may be at `now`, at least 1; 0 before the first ping.
  Nanoseconds ErrorAt(Nanoseconds now) const;

 private:
  Nanoseconds offset_ = 0;
  Nanoseconds error_ = 0;  // When it was noted; 0: nothing was.
  Nanoseconds noted_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_CHIEF_CLOCK_H_
