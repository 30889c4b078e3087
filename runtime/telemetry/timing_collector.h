// The chief's side of measuring: receives all workers' step records and the epochs' results, streams them to
// RUN_DIR/steps.csv and epochs.csv, and keeps what the summary needs. Memory does not grow with the number of
// steps. Thread-compatible; only Open, Restore, Begin, Flush and the
// destructor wait for the disk.
#ifndef TETHYS_RUNTIME_TELEMETRY_TIMING_COLLECTOR_H_
#define TETHYS_RUNTIME_TELEMETRY_TIMING_COLLECTOR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "proto/checkpoint.pb.h"
#include "proto/chief_snapshot.pb.h"
#include "proto/summary.pb.h"
#include "proto/telemetry.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/telemetry/gradient_noise.h"
#include "runtime/telemetry/run_csv.h"
#include "runtime/telemetry/timing_analysis.h"

namespace tethys {

class TimingCollector {
 public:
  struct Options {
    int workers = 1;
    bool lock_step = true;  // All workers make each step together (local, mirrored, bulk-synchronous).
    // The state in which this attempt (this start of the run) begins, and the number of positions in an
    // epoch's order.
    proto::TrainingState state = {};
    int64_t epoch_length = 0;
    bool finished = false;  // True if nothing is left to train in `state`.
  };
  static absl::StatusOr<std::unique_ptr<TimingCollector>> Open(const std::string& run_dir,
                                                               const Options& options);

  // Writes the collector's state into an empty message. Does not block. Errors: those of CsvFile::Save.
  absl::Status Save(proto::TimingState& state) const;
  // Recreates the collector whose Save wrote `state`, for a process that takes over, with the files as they
  // were then. Requires the same `options`. InvalidArgument: no collector can have written `state`. DataLoss:
  // a file is shorter than it was then.
  static absl::StatusOr<std::unique_ptr<TimingCollector>> Restore(const std::string& run_dir,
                                                                  const Options& options,
                                                                  const proto::TimingState& state);

  // Removes from the files the lines of work that the attempt undoes (CsvFile::Begin). Blocks; may be called
  // on any thread.
  absl::Status Begin();

  // Adds records of one worker, in the order of its steps. `clock_offset`: the chief's clock minus the
  // worker's. `workers`: the number of workers that together made each of the steps, if the workers train in
  // lock step; 0: all workers of the job.
  // InvalidArgument: a rank that is not among the workers; none of the records is added. An error
  // of the file (ResourceExhausted: disk full) concerns earlier lines and is returned after all records were
  // counted: training may continue without the lines.
  absl::Status Add(const proto::StepRecords& records, Nanoseconds clock_offset, int workers = 0);

  // Appends to epochs.csv and queues all lines of both files for writing. Does not block.
  absl::Status AddEpoch(const proto::EpochResult& result);

  // Blocks until all lines added so far are in the files.
  absl::Status Flush();

  // Requires that worker_loss and group_change are filled in. Fills in steps_recorded, samples_recorded,
  // phases, communication, gradient_noise and, in timing, barrier_seconds and the fields that come from step
  // records (proto/summary.proto). `training_seconds` is the time spent training in this attempt; samples per
  // second are computed from it.
  void FillSummary(double training_seconds, proto::RunSummary& summary) const;

 private:
  // Larger values of staleness are counted as this value.
  static constexpr int64_t kMaxStaleness = 9999;

  TimingCollector(int workers, bool lock_step, std::unique_ptr<CsvFile> steps,
                  std::unique_ptr<CsvFile> epochs);
  absl::Status RestoreCounts(const proto::TimingState& state);
  void Count(const proto::StepRecord& record, int workers);
  TimingAnalysis AnalyseAll() const;
  // `unrecorded`: samples that were used and have no record.
  void FillTiming(double training_seconds, int64_t unrecorded, proto::Timing& timing) const;

  const bool lock_step_;
  const std::unique_ptr<CsvFile> steps_csv_;
  const std::unique_ptr<CsvFile> epochs_csv_;

  std::vector<IterationTimes> iterations_;  // One element for each rank.
  proto::StepSums sums_;                    // Sums over all records.
  GradientNoise noise_;
  int64_t records_ = 0;
  std::map<int64_t, int64_t> staleness_;  // Number of steps for each staleness.
  double validation_seconds_ = 0;
  double barrier_seconds_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_TELEMETRY_TIMING_COLLECTOR_H_
