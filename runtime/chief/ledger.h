// Which samples of the running segment are taken, and which are used. Pure; the chief's loop only.
//
// Bulk-synchronous and mirrored workers compute their slices themselves and only report them; asynchronous
// ones hold leases, consecutive ranges of whole batches, handed out several ahead so that nobody waits for
// the chief.
#ifndef TETHYS_RUNTIME_CHIEF_LEDGER_H_
#define TETHYS_RUNTIME_CHIEF_LEDGER_H_

#include <cstdint>
#include <map>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/data/sharding.h"

namespace tethys {

// Invariants:
//  1. Leases are disjoint, in ascending order, and lie in the segment.
//  2. A position is used at most once; with leasing, only by the worker that holds its lease.
class SampleLedger {
 public:
  // Positions [segment.begin, segment.end) of one epoch. `batch` > 0: they are leased in ranges of so many.
  SampleLedger(Slice segment, int64_t batch, int workers);

  // At most `batches` ranges for a worker; fewer towards the end, so that the last batches are spread. Empty:
  // all are leased.
  std::vector<Slice> Lease(int worker, int batches);
  bool all_leased() const { return next_ == segment_.end; }

  // A worker has used these positions. FailedPrecondition names what is wrong with that: outside the segment,
  // used already, or leased to another worker.
  absl::Status Use(int worker, Slice positions);
  bool all_used() const { return used_count_ == segment_.count(); }
  int64_t used_count() const { return used_count_; }
  // The first position not yet used.
  int64_t first_unused() const;

 private:
  const Slice segment_;
  const int64_t batch_;
  const int workers_;
  int64_t next_;                     // First position not leased.
  std::map<int64_t, int> lease_;     // Begin of each outstanding lease to its worker.
  std::map<int64_t, int64_t> used_;  // Begin to end, disjoint, merged.
  int64_t used_count_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_LEDGER_H_
