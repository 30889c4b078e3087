// Writes the job's progress to a descriptor: one proto::ProgressEvent a line, as JSON. A thread of its own
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
//  1. Events are written in the order in which they were added. At most one Progress and one Pulse are
//  queued behind the last other event; later ones replace them. An empty event (a sign of life) is queued
//  only alone.
//  2. Every other event is written, except epochs and notes beyond kMostWaiting; a note gives their number.
class ProgressPipe {
 public:
  static constexpr int kMostWaiting = 1 << 14;

  // -1: events are discarded. The descriptor outlives the pipe.
  explicit ProgressPipe(int fd);
  // Starts writing; until then events are queued. ResourceExhausted: no thread can be started.
  absl::Status Start();
  // Blocks until all events are written or the reader is gone, because the last event is the job's result.
  ~ProgressPipe();

  void Add(proto::ProgressEvent event);

 private:
  void Run();
  // Waits for an event. Returns false if no event is left and the pipe is closing.
  bool Take(proto::ProgressEvent& event);

  const int fd_;
  Mutex mu_;
  CondVar changed_;
  std::deque<proto::ProgressEvent> waiting_ ABSL_GUARDED_BY(mu_);
  int64_t left_out_ ABSL_GUARDED_BY(mu_) = 0;  // Events left out since the last note that counted them.
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  bool broken_ ABSL_GUARDED_BY(mu_) = false;

  Thread thread_;  // Declared last: it uses all of the above.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_PROGRESS_PIPE_H_
