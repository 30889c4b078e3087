// Records which samples of the running segment are used. Pure; used on the chief's loop only.
#ifndef TETHYS_RUNTIME_CHIEF_LEDGER_H_
#define TETHYS_RUNTIME_CHIEF_LEDGER_H_

#include <cstdint>
#include <map>

#include "runtime/base/status.h"
#include "runtime/data/sharding.h"

namespace tethys {

// Invariant: a position is used at most once.
class SampleLedger {
 public:
  // Positions [segment.begin, segment.end) of one epoch.
  explicit SampleLedger(Slice segment) : segment_(segment) {}

  // A worker has used these positions. FailedPrecondition: they are outside the segment, or used already.
  absl::Status Use(int worker, Slice positions);
  // Moves the segment's end. Requires that no position from `end` on is used.
  void CutTo(int64_t end) { segment_.end = end; }
  bool all_used() const { return used_count_ == segment_.count(); }
  int64_t used_count() const { return used_count_; }
  // The first unused position.
  int64_t first_unused() const;

 private:
  Slice segment_;
  std::map<int64_t, int64_t> used_;  // Begin to end; disjoint, adjacent ones merged.
  int64_t used_count_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_LEDGER_H_
