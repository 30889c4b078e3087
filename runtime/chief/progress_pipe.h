// Writes the job's progress to a descriptor, one proto::ProgressEvent per line, as JSON. A separate thread
// writes, so that the chief never waits for a reader that is slow or stopped. Thread-safe; only the
// destructor blocks.
#ifndef TETHYS_RUNTIME_CHIEF_PROGRESS_PIPE_H_
#define TETHYS_RUNTIME_CHIEF_PROGRESS_PIPE_H_

#include <cstdint>
#include <deque>
#include <string>

#include "proto/telemetry.pb.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"

namespace tethys {

// Invariants:
//  1. Events are written in the order in which they were added. After the last event of another kind, at most
//  one Progress and one Pulse are queued; a newer Progress or Pulse replaces the queued one. An empty event
//  (a sign of life) is queued only if the queue is empty.
//  2. Every other event is written. The only exception: while kMostWaiting events are queued, epochs and
//  notes are left out, and a later note says how many were left out.
class ProgressPipe {
 public:
  static constexpr int kMostWaiting = 1 << 14;

  // `fd`: the descriptor, which must stay open as long as the pipe exists; -1: events are discarded.
  explicit ProgressPipe(int fd);
  // Starts writing; until then events are queued. ResourceExhausted: no thread can be started.
  absl::Status Start();
  // Blocks until all events are written or the reader is gone, so that the last event, the job's result, is
  // not lost.
  ~ProgressPipe();

  void Add(proto::ProgressEvent event);

  // Appends the numbered events that may not have been written to the descriptor, in order.
  void Save(google::protobuf::RepeatedPtrField<proto::ProgressEvent>& unwritten);

 private:
  void Run();
  // Waits for an event. Returns false if no event is left and the pipe is closing.
  bool Take(proto::ProgressEvent& event);

  const int fd_;
  Mutex mu_;
  CondVar changed_;
  std::deque<proto::ProgressEvent> waiting_ ABSL_GUARDED_BY(mu_);
  proto::ProgressEvent writing_ ABSL_GUARDED_BY(mu_);  // The event that is being written, or was last.
  int64_t left_out_ ABSL_GUARDED_BY(mu_) = 0;  // Events left out since the last note that counted them.
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  bool broken_ ABSL_GUARDED_BY(mu_) = false;

  Thread thread_;  // Declared last, because it uses all members above.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_PROGRESS_PIPE_H_
