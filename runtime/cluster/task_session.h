// A task's side of the control plane: joins the chief, takes its orders, and carries heartbeats and
// measurements. Used by the worker and server processes.
//
//   auto session = TaskSession::Connect(options, clock);
//   session->StartBeating(interval, fill);          from now on, on a thread of the session
//   session->Send(join);
//   while (...) { order = session->Receive(); ... session->Send(answer); }
//   session->Close();
//
// Send may be called by any thread and never blocks; Receive by one thread at a time.
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
#include "runtime/base/status.h"
#include "runtime/cluster/task_options.h"
#include "runtime/tensor/variable.h"

namespace tethys {

class TaskSession {
 public:
  // Blocks until the chief has admitted this task, at most options.connect_timeout. Unavailable names the
  // address; Unauthenticated, FailedPrecondition and AlreadyExists are the chief's refusals.
  static absl::StatusOr<std::unique_ptr<TaskSession>> Connect(const TaskOptions& options, const Clock& clock);
  virtual ~TaskSession() = default;

  virtual void Send(proto::FromTask message) = 0;

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

  // Elements [begin, begin + out.size()) of a slot (0: parameters) from the checkpoint the job resumes from.
  virtual absl::Status ReadCheckpoint(int slot, int64_t begin, absl::Span<float> out) = 0;

  // Streams ranges into the checkpoint being saved: `source` calls `write` as often as it likes, with any
  // length.
  using WriteRange = absl::FunctionRef<absl::Status(int slot, int64_t begin, absl::Span<const float> values)>;
  using Source = absl::FunctionRef<absl::Status(WriteRange write)>;
  virtual absl::Status WriteCheckpoint(int64_t save_id, Source source) = 0;

  // Sends what is queued and ends the session; waits for the chief to take note, a second at most.
  virtual void Close() = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_TASK_SESSION_H_
