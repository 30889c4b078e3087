// The segment under way: which of its samples are used and, where workers train on leases, who holds which.
// Speaks to workers and journal about samples, and translates between positions of the epoch's order and
// those over the whole job. Pure; belongs to the controller.
#ifndef TETHYS_RUNTIME_CHIEF_RUNNING_SEGMENT_H_
#define TETHYS_RUNTIME_CHIEF_RUNNING_SEGMENT_H_

#include <cstdint>

#include "absl/types/optional.h"
#include "proto/chief.pb.h"
#include "runtime/base/status.h"
#include "runtime/chief/chief_actions.h"
#include "runtime/chief/lease_book.h"
#include "runtime/chief/ledger.h"
#include "runtime/chief/segment_planner.h"

namespace tethys {

class RunningSegment {
 public:
  // Batches a worker holds ahead.
  static constexpr int kLeasesAhead = 4;

  // `planner` outlives it.
  RunningSegment(const SegmentPlanner& planner, int64_t train_samples)
      : planner_(planner), train_samples_(train_samples), leases_(planner.in_rounds()) {}

  // Requires that nothing of the last one is held.
  void Open(const TrainingSegment& segment);
  // A run over it that workers are to begin: the first, or another for what came back from lost workers.
  void BeginRun() { ++run_; }
  // Batches came back after every worker was told that it gets no more. All workers are at rest.
  bool ReopenIfUnfinished();

  // The segment ends after so many of its steps, or, on leases, behind the last one given out. Requires Open.
  void CutAfter(int64_t steps);
  void CutToLeased();

  // The order to take part in the run. `first_step`: the global step it begins with.
  proto::Run RunOrder(int64_t first_step) const;
  // The next batches for a worker, into the journal too.
  void SendLeases(int worker, int batches, Actions& actions);

  // The worker has used these positions of the epoch. FailedPrecondition: not its own, or used already.
  absl::Status Use(int worker, Slice positions);
  // Internal: a position was not used, though every worker says it is done.
  absl::Status CheckAllUsed() const;
  int64_t used_count() const { return ledger_.has_value() ? ledger_->used_count() : 0; }

  // Of samples that are counted over the whole job. Any numbers may be given: those that no job counts up to
  // give [-1, 0), which is in no segment.
  Slice Positions(int64_t sample_begin, int64_t count) const;
  int64_t SampleBegin(Slice positions) const;

  int64_t run() const { return run_; }
  const TrainingSegment& segment() const { return segment_; }
  LeaseBook& leases() { return leases_; }
  SampleLedger& ledger() { return *ledger_; }  // Requires Open.

 private:
  void CutAt(int64_t end);

  const SegmentPlanner& planner_;
  const int64_t train_samples_;

  TrainingSegment segment_;
  int64_t run_ = 0;
  absl::optional<SampleLedger> ledger_;
  LeaseBook leases_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_RUNNING_SEGMENT_H_
