// Tells whoever reads a descriptor how the job goes: one proto::ProgressEvent a line, as JSON. A thread of
// its own writes, so that the chief never waits for its reader: a launcher that is stopped, or one whose
// terminal takes nothing. Thread-safe; only the destructor blocks.
#ifndef TETHYS_RUNTIME_CHIEF_PROGRESS_PIPE_H_
#define TETHYS_RUNTIME_CHIEF_PROGRESS_PIPE_H_

#include <cstdint>
#include <deque>
#include <string>
#include <thread>

#include "proto/telemetry.pb.h"
#include "runtime/base/mutex.h"

namespace tethys {

// Invariants:
//  1. Events are written in the order in which they were added. Of those that only say how far the job is
//  (Progress), or that the chief lives (no event), the newest waits, and none behind which another was added.
//  2. Every other event is written, but for epochs and notes beyond kMostWaiting; a note says how many.
class ProgressPipe {
 public:
  static constexpr int kMostWaiting = 1 << 14;

  // -1: nobody is told. The descriptor outlives the pipe.
  explicit ProgressPipe(int fd);
  // Waits until everything is read, or the reader is gone: the last event is how the job ended.
  ~ProgressPipe();

  void Add(proto::ProgressEvent event);

 private:
  void Run();
  // False: there is nothing more to write.
  bool Take(proto::ProgressEvent& event);

  const int fd_;
  Mutex mu_;
  CondVar changed_;
  std::deque<proto::ProgressEvent> waiting_ ABSL_GUARDED_BY(mu_);
  int64_t left_out_ ABSL_GUARDED_BY(mu_) = 0;  // Since the last note on it.
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  bool broken_ ABSL_GUARDED_BY(mu_) = false;

  std::thread thread_;  // Last: it uses all of the above.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_PROGRESS_PIPE_H_
