// Records which samples of the running segment are used. Pure; used on the chief's loop only.
#ifndef TETHYS_RUNTIME_CHIEF_LEDGER_H_
#define TETHYS_RUNTIME_CHIEF_LEDGER_H_

#include <cstdint>

#include "runtime/base/status.h"
#include "runtime/chief/interval_set.h"
#include "runtime/data/sharding.h"

namespace tethys {

// Invariant: a position is used at most once.
class SampleLedger {
 public:
  // Records the use of the positions `segment` of one epoch.
  explicit SampleLedger(Slice segment) : segment_(segment) {}

  // Notes that a worker has used these positions. FailedPrecondition: a position is outside the segment, or
  // is used already.
  absl::Status Use(int worker, Slice positions);
  // Moves the segment's end to `end`. Requires that no position from `end` on is used.
  void CutTo(int64_t end) { segment_.end = end; }
  bool all_used() const { return used_count() == segment_.count(); }
  int64_t used_count() const { return used_.count(); }
  // The first unused position.
  int64_t first_unused() const;
  const IntervalSet& used() const { return used_; }

 private:
  Slice segment_;
  IntervalSet used_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_LEDGER_H_
