// A task's side of the control plane: joins the chief, takes its orders, and carries heartbeats and
// measurements. Used by the worker and server processes.
//
//   auto session = TaskSession::Connect(options, clock);
//   session->StartBeating(interval, fill);          from now on, on a thread of the session
//   session->Send(join);
//   while (...) { order = session->Receive(); ... session->Send(answer); }
//   session->Close();
//
// Send and status may be called by any thread and never block; Receive by one thread at a time.
//
// A chief that has not been heard for options.chief_silence is lost, and so is one whose session ended before
// it said that the job ended well. Then every call to it is cancelled, whatever it waits for. A process that
// is still there options.chief_grace later is ended, because it may wait for something that has no deadline.
#ifndef TETHYS_RUNTIME_CLUSTER_TASK_SESSION_H_
#define TETHYS_RUNTIME_CLUSTER_TASK_SESSION_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "proto/chief.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/process.h"
#include "runtime/base/status.h"
#include "runtime/cluster/task_options.h"
#include "runtime/tensor/variable.h"

namespace tethys {

class TaskSession {
 public:
  // Blocks until the chief has admitted this task, for its answers at most options.connect_timeout each.
  // Unavailable and DeadlineExceeded name the address; Unauthenticated, FailedPrecondition and AlreadyExists
  // are the chief's refusals. `end_process` must not return but in tests.
  static absl::StatusOr<std::unique_ptr<TaskSession>> Connect(
      const TaskOptions& options, const Clock& clock, std::function<void()> end_process = EndProcessAtOnce);
  virtual ~TaskSession() = default;

  virtual void Send(proto::FromTask message) = 0;

  // Unavailable once the chief is lost. For work during which nothing is received.
  virtual absl::Status status() = 0;

  // The next order; blocks until there is one. Unavailable when the session broke or the chief was silent for
  // options.chief_silence.
  virtual absl::StatusOr<proto::ToTask> Receive() = 0;
  // The next order if it is there.
  virtual absl::StatusOr<absl::optional<proto::ToTask>> Poll() = 0;

  // Every `interval`: `fill` completes a heartbeat and appends messages that go before it (records,
  // journals). Beat() does the same at once, on the calling thread, so that what was measured goes before
  // what is sent next. `fill` is never run twice at a time.
  using Fill = std::function<void(proto::Heartbeat& heartbeat, std::vector<proto::FromTask>& before)>;
  virtual void StartBeating(Nanoseconds interval, Fill fill) = 0;
  virtual void Beat() = 0;
  // Brings the next beat forward; any thread, does not block.
  virtual void BeatSoon() = 0;

  // Another worker computes a step, by what the chief last knew; any thread. So long as this is true, waiting
  // for the others in lock step is no sign of a loss.
  virtual bool peers_compute() const = 0;

  // Elements [begin, begin + out.size()) of a slot (0: parameters) from the checkpoint the job resumes from.
  // Blocks until they are there or the chief is lost; so does WriteCheckpoint.
  virtual absl::Status ReadCheckpoint(int slot, int64_t begin, absl::Span<float> out) = 0;

  // Streams ranges into the checkpoint being saved: `source` calls `write` as often as it likes, with any
  // length.
  using WriteRange = absl::FunctionRef<absl::Status(int slot, int64_t begin, absl::Span<const float> values)>;
  using Source = absl::FunctionRef<absl::Status(WriteRange write)>;
  virtual absl::Status WriteCheckpoint(int64_t save_id, Source source) = 0;

  // Sends what is queued and ends the session. Blocks as long as messages leave, then for the chief to take
  // note; where a second passes without either, the session is cancelled.
  virtual void Close() = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_TASK_SESSION_H_
