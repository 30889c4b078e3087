#include "runtime/base/clock.h"

#include <ctime>

namespace tethys {

Nanoseconds MonotonicClock::Now() const {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<Nanoseconds>(now.tv_sec) * kSecond + now.tv_nsec;
}

}  // namespace tethys
