#include "runtime/cluster/chief_clock.h"

#include <algorithm>

namespace tethys {

void ChiefClock::Note(Nanoseconds sent, Nanoseconds received, Nanoseconds chief_now) {
  const Nanoseconds round_trip = received - sent;
  if (round_trip < 0) return;
  const Nanoseconds error = std::max<Nanoseconds>(1, round_trip / 2);
  if (error_ > 0 && error >= ErrorAt(received)) return;
  offset_ = chief_now - (sent + round_trip / 2);
  error_ = error;
  noted_ = received;
}

Nanoseconds ChiefClock::ErrorAt(Nanoseconds now) const {
  return error_ == 0 ? 0 : error_ + std::max<Nanoseconds>(0, now - noted_) / kDriftFraction;
}

}  // namespace tethys
