// A task's estimate of the chief's clock, from its pings (Cristian 1989). Pure; thread-compatible.
//
// A ping with round-trip time r gives the chief's time to within r / 2. This error grows with time, because
// the clocks of two machines drift apart. So the estimate comes from the ping whose error is smallest now.
#ifndef TETHYS_RUNTIME_CLUSTER_CHIEF_CLOCK_H_
#define TETHYS_RUNTIME_CLUSTER_CHIEF_CLOCK_H_

#include "runtime/base/clock.h"

namespace tethys {

class ChiefClock {
 public:
  // Two machines' clocks are assumed to drift apart by 1 / kDriftFraction of the time passed: 15 us a second,
  // as in NTP (RFC 5905, PHI).
  static constexpr int64_t kDriftFraction = 66'667;

  // Takes a ping sent at `sent` whose answer, `chief_now`, was received at `received`. An answer received
  // before its ping was sent is ignored.
  void Note(Nanoseconds sent, Nanoseconds received, Nanoseconds chief_now);

  // The chief's clock minus the task's; 0 before the first ping.
  Nanoseconds offset() const { return offset_; }
  // The largest possible error of offset() at `now`, at least 1 ns; 0 before the first ping.
  Nanoseconds ErrorAt(Nanoseconds now) const;

 private:
  Nanoseconds offset_ = 0;
  Nanoseconds error_ = 0;  // The error at time noted_; 0: no ping yet.
  Nanoseconds noted_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_CHIEF_CLOCK_H_
