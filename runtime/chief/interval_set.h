// A set of integers (positions in a sample order), stored as disjoint intervals; adjacent intervals are
// merged. Pure, thread-compatible.
#ifndef TETHYS_RUNTIME_CHIEF_INTERVAL_SET_H_
#define TETHYS_RUNTIME_CHIEF_INTERVAL_SET_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

namespace tethys {

class IntervalSet {
 public:
  static constexpr int64_t kNone = -1;

  // Adds [begin, end) and returns kNone. If a position of this interval is in the set already, adds nothing
  // and returns that position. Requires begin < end.
  int64_t Add(int64_t begin, int64_t end) {
    const auto next = ends_.upper_bound(begin);
    if (next != ends_.end() && next->first < end) return next->first;
    auto added = ends_.end();
    if (next != ends_.begin()) {
      const auto before = std::prev(next);
      if (before->second > begin) return begin;
      if (before->second == begin) added = before;
    }
    const bool joins_next = next != ends_.end() && next->first == end;
    const int64_t new_end = joins_next ? next->second : end;
    if (joins_next) ends_.erase(next);
    if (added == ends_.end()) {
      ends_.emplace(begin, new_end);
    } else {
      added->second = new_end;
    }
    count_ += end - begin;
    return kNone;
  }

  // The number of positions in the set.
  int64_t count() const { return count_; }
  // Maps the begin of each interval to its end.
  const std::map<int64_t, int64_t>& intervals() const { return ends_; }

 private:
  std::map<int64_t, int64_t> ends_;
  int64_t count_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_INTERVAL_SET_H_
