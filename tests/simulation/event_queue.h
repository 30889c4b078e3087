// Virtual time, and the random numbers of a run. Both are the only sources of order and chance in the
// simulation, so a seed determines every event.
#ifndef TETHYS_TESTS_SIMULATION_EVENT_QUEUE_H_
#define TETHYS_TESTS_SIMULATION_EVENT_QUEUE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <utility>

#include "runtime/base/clock.h"

namespace tethys::simulation {

// Random numbers by SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
// 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}

  uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // A random number in [least, most].
  int64_t Between(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(Next() % static_cast<uint64_t>(most - least + 1));
  }
  bool Chance(double probability) { return static_cast<double>(Next() >> 11) * 0x1p-53 < probability; }
  template <typename T>
  T Pick(std::initializer_list<T> values) {
    return values.begin()[Between(0, static_cast<int64_t>(values.size()) - 1)];
  }
  // A random duration of at most `usual`; one in ten is multiplied by four.
  Nanoseconds Delay(Nanoseconds usual) { return Between(1, usual) * (Chance(0.1) ? 4 : 1); }

 private:
  uint64_t state_;
};

// Events in the order of their times. Events with the same time run in the order in which they were added.
class EventQueue {
 public:
  using Event = std::function<void()>;

  Nanoseconds now() const { return now_; }
  void At(Nanoseconds time, Event event) {
    events_.emplace(std::pair{std::max(time, now_), number_++}, std::move(event));
  }
  void After(Nanoseconds delay, Event event) { At(now_ + delay, std::move(event)); }
  uint64_t added() const { return number_; }
  // Runs the next event. False: there is no event.
  bool RunNext() {
    if (events_.empty()) return false;
    const auto first = events_.begin();
    now_ = first->first.first;
    const Event event = std::move(first->second);
    events_.erase(first);
    event();
    return true;
  }

 private:
  Nanoseconds now_ = kSecond;
  uint64_t number_ = 0;
  std::map<std::pair<Nanoseconds, uint64_t>, Event> events_;
};

}  // namespace tethys::simulation

#endif  // TETHYS_TESTS_SIMULATION_EVENT_QUEUE_H_
