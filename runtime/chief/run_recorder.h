// What an attempt records in its run directory: the journal, steps.csv, epochs.csv and resources.csv, with
// the sums for the summary. Used by the chief's loop. Thread-compatible, except JournalWriter::Sync. Begin,
// Continue and EndBeginning wait for the disk.
//
// The state can be saved between any two inputs of the chief, together with the state of the controller. A
// process that takes over restores it and then records the rest, so the files get every line once:
//
//   recorder->Save(state)   ->  RunRecorder::Continue(options, clock, begin), where `begin` has a snapshot
//   with `state`
#ifndef TETHYS_RUNTIME_CHIEF_RUN_RECORDER_H_
#define TETHYS_RUNTIME_CHIEF_RUN_RECORDER_H_

#include <atomic>
#include <memory>
#include <string>

#include "proto/chief_log.pb.h"
#include "proto/chief_snapshot.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"
#include "runtime/chief/journal_writer.h"
#include "runtime/chief/resource_recorder.h"
#include "runtime/telemetry/timing_collector.h"

namespace tethys {

class RunRecorder {
 public:
  struct Options {
    std::string run_dir;
    std::string attempt;  // The journal's line that begins the attempt.
    TimingCollector::Options timing;
    ResourceRecorder::Options resources;
  };
  // Begins an attempt. Sets the lengths of files in `begin`.
  static absl::StatusOr<std::unique_ptr<RunRecorder>> Begin(const Options& options, const Clock& clock,
                                                            proto::LogBegin& begin);
  // Goes on with the attempt that `begin` describes, for a process that takes over: at the snapshot, or at
  // the beginning of the attempt if there is none. All that was recorded later is expected to come again.
  // DataLoss: a file is shorter than the lost chief left it. InvalidArgument: no recorder can have saved the
  // state.
  static absl::StatusOr<std::unique_ptr<RunRecorder>> Continue(const Options& options, const Clock& clock,
                                                               const proto::LogBegin& begin);

  // Writes the state into an empty message. Does not block: lines that wait for the disk are a part of the
  // state. Unavailable: too many lines wait, or training has begun only now. Other errors: lines of the
  // journal are lost.
  absl::Status Save(proto::RunRecorderState& state);

  // Called when training begins: removes the lines of undone work (attempt_files.h), on a thread of its own.
  void BeginTraining();
  // True once BeginTraining has been called in this attempt.
  bool training() const { return training_; }
  // Waits for that thread. Returns an error of a file, which training survives.
  absl::Status EndBeginning();

  JournalWriter& journal() { return *journal_; }
  TimingCollector& timing() { return *timing_; }
  ResourceRecorder& resources() { return *resources_; }

 private:
  explicit RunRecorder(const std::string& run_dir) : run_dir_(run_dir) {}

  const std::string run_dir_;
  std::unique_ptr<JournalWriter> journal_;
  std::unique_ptr<TimingCollector> timing_;
  std::unique_ptr<ResourceRecorder> resources_;
  bool training_ = false;
  absl::Status begun_;                  // The result of BeginTraining's thread, once the thread has ended.
  std::atomic<bool> has_begun_{false};  // True once begun_ is set.
  Thread beginner_;                     // Declared last, because it uses the members above.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_RUN_RECORDER_H_
