// The running segment: its used samples and, if workers train on leases, the worker that holds each batch.
// Translates between positions in the epoch's order and positions over the whole job, which workers and the
// journal use. Pure; owned by JobController.
#ifndef TETHYS_RUNTIME_CHIEF_RUNNING_SEGMENT_H_
#define TETHYS_RUNTIME_CHIEF_RUNNING_SEGMENT_H_

#include <cstdint>

#include "absl/types/optional.h"
#include "proto/chief.pb.h"
#include "proto/chief_state.pb.h"
#include "runtime/base/status.h"
#include "runtime/chief/chief_actions.h"
#include "runtime/chief/lease_book.h"
#include "runtime/chief/ledger.h"
#include "runtime/chief/segment_planner.h"

namespace tethys {

class RunningSegment {
 public:
  // The most batches that a worker holds in advance.
  static constexpr int kLeasesAhead = 4;

  // `planner` must outlive this object. `epoch_length`: the number of positions in an epoch's sample order.
  RunningSegment(const SegmentPlanner& planner, int64_t epoch_length)
      : planner_(planner), epoch_length_(epoch_length), leases_(planner.batches()) {}

  // Begins a segment, whose samples are split into `shares` shares. Requires that no batch of the previous
  // segment is held.
  void Open(const TrainingSegment& segment, int shares);
  // Begins a run over the segment. The first run covers the whole segment. A further run is either for
  // batches that lost workers returned or, in lock step, for the steps after the first `made` steps.
  void BeginRun(int64_t made = 0) {
    ++run_;
    made_ = made;
  }
  // If lost workers returned batches after every other worker was told that it gets no more leases, makes
  // these batches available for leases and returns true. Requires that all workers have ended the run.
  bool ReopenIfUnfinished();

  // These functions end the segment early. CutAfter ends it after the first `steps` steps of the segment, and
  // CutToLeased after the last leased batch. Both require Open.
  void CutAfter(int64_t steps);
  void CutToLeased();

  // Returns the order to take part in the run. `first_step`: the global step with which the segment begins.
  proto::Run RunOrder(int64_t first_step) const;
  // Leases the next batches to a worker, and records them in the journal.
  void SendLeases(int worker, int batches, Actions& actions);

  // Notes that the worker has used these positions of the epoch. FailedPrecondition: the worker does not hold
  // these positions, or they are used already.
  absl::Status Use(int worker, Slice positions);
  // OK if every position was used. Internal: a position was not used, though every worker has ended the run.
  absl::Status CheckAllUsed() const;
  int64_t used_count() const { return ledger_.has_value() ? ledger_->used_count() : 0; }

  // These functions convert a position over the whole job into positions in the epoch, and back. Positions
  // accepts any numbers; for numbers beyond the limits of a job it returns [-1, 0), which is in no segment.
  Slice Positions(int64_t sample_begin, int64_t count) const;
  int64_t SampleBegin(Slice positions) const;

  // The last epoch whose positions, counted over the whole job, are within the limits of a job.
  int64_t last_epoch() const;
  int64_t run() const { return run_; }
  // The number of the segment's steps that earlier runs have completed.
  int64_t made() const { return made_; }
  const TrainingSegment& segment() const { return segment_; }
  LeaseBook& leases() { return leases_; }
  SampleLedger& ledger() { return *ledger_; }  // Requires Open.
  bool open() const { return ledger_.has_value(); }

  void Save(proto::SegmentState& state) const;
  // InvalidArgument: this job has no such segment, or some position of the segment is not in exactly one of
  // the three states used, leased and free.
  absl::Status Restore(const proto::SegmentState& state, int workers, int servers);

 private:
  void CutAt(int64_t end);

  const SegmentPlanner& planner_;
  const int64_t epoch_length_;

  TrainingSegment segment_;
  int64_t run_ = 0;
  int64_t made_ = 0;
  absl::optional<SampleLedger> ledger_;
  LeaseBook leases_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_RUNNING_SEGMENT_H_
