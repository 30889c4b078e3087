// A clock that moves only by Advance. Thread-safe.
#ifndef TETHYS_TESTS_TESTING_FAKE_CLOCK_H_
#define TETHYS_TESTS_TESTING_FAKE_CLOCK_H_

#include <atomic>

#include "runtime/base/clock.h"

namespace tethys {

class FakeClock final : public Clock {
 public:
  Nanoseconds Now() const override { return now_; }
  void Advance(Nanoseconds by) { now_ += by; }

 private:
  std::atomic<Nanoseconds> now_{1 * kSecond};
};

}  // namespace tethys

#endif  // TETHYS_TESTS_TESTING_FAKE_CLOCK_H_
