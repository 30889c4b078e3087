// Time as an interface. Protocol logic gets the time as an argument, `now`, and never reads a clock. Other
// code reads a Clock that its caller passes.
#ifndef TETHYS_RUNTIME_BASE_CLOCK_H_
#define TETHYS_RUNTIME_BASE_CLOCK_H_

#include <cstdint>
#include <functional>

namespace tethys {

// Nanoseconds on a monotonic clock whose origin means nothing. Never compare times of two machines.
using Nanoseconds = int64_t;

constexpr Nanoseconds kMicrosecond = 1'000;
constexpr Nanoseconds kMillisecond = 1'000'000;
constexpr Nanoseconds kSecond = 1'000'000'000;

constexpr Nanoseconds FromSeconds(double seconds) { return static_cast<Nanoseconds>(seconds * 1e9); }
constexpr double ToSeconds(Nanoseconds ns) { return static_cast<double>(ns) * 1e-9; }

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Nanoseconds Now() const = 0;
};

// Tells whether the peers that a wait depends on are computing. While they compute, the wait's deadline is
// suspended. Called on any thread; does not block. An empty function means that peers never compute.
using PeersCompute = std::function<bool()>;

// The machine's monotonic clock.
class MonotonicClock final : public Clock {
 public:
  Nanoseconds Now() const override;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_CLOCK_H_
