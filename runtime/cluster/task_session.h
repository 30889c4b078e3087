// A task's side of the control plane: joins the chief, receives its orders, and carries heartbeats and
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
// If the chief has a successor (proto/chief.proto, Session), a session that broke is opened again, and
// nothing that either side has sent is lost or comes twice. Callers notice nothing.
//
// The chief is lost when no message came from it for options.chief_silence, or when the session ended before
// the chief said that the job succeeded. Then every call to the chief is cancelled. A process that still runs
// options.chief_grace later is ended at once, because it may wait for something that has no deadline.
#ifndef TETHYS_RUNTIME_CLUSTER_TASK_SESSION_H_
#define TETHYS_RUNTIME_CLUSTER_TASK_SESSION_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
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
  // Blocks until the chief has admitted this task; waits at most options.connect_timeout for each answer of
  // the chief. Unavailable and DeadlineExceeded name the address; Unauthenticated, FailedPrecondition and
  // AlreadyExists are the chief's refusals. `end_process` ends a hanging process and must not return, except
  // in tests.
  static absl::StatusOr<std::unique_ptr<TaskSession>> Connect(
      const TaskOptions& options, const Clock& clock, std::function<void()> end_process = EndProcessAtOnce);
  virtual ~TaskSession() = default;

  virtual void Send(proto::FromTask message) = 0;

  // Returns Unavailable once the chief is lost. Meant for code that runs for a long time without calling
  // Receive.
  virtual absl::Status status() = 0;

  // The next order; blocks until there is one. Unavailable when the session broke or the chief was silent for
  // options.chief_silence.
  virtual absl::StatusOr<proto::ToTask> Receive() = 0;
  // The next order, or nullopt if there is none yet.
  virtual absl::StatusOr<absl::optional<proto::ToTask>> Poll() = 0;

  // From now on, calls `urgent` for each Halt and each Servers, on the session's reader thread and before
  // Receive or Poll returns the order. The task's own thread may not call Receive at that time, because it
  // may be waiting for a lost member of its group. `urgent` must neither block nor use the session. Another
  // call of CallAtOnce first waits until `urgent` does not run, and then replaces it; null ends the calls.
  using UrgentCallback = std::function<void(const proto::ToTask& order)>;
  virtual void CallAtOnce(UrgentCallback urgent) = 0;

  // Sends a heartbeat every `interval` from now on. `fill` completes the heartbeat, and appends to `before`
  // the messages (records, journals) that are sent before the heartbeat. A later call replaces `fill`. Calls
  // of `fill` never overlap. Beat() sends a heartbeat at once, on the calling thread, so that measurements
  // are sent before the caller's next message.
  using Fill = std::function<void(proto::Heartbeat& heartbeat, std::vector<proto::FromTask>& before)>;
  virtual void StartBeating(Nanoseconds interval, Fill fill) = 0;
  virtual void Beat() = 0;
  // Makes the next heartbeat due now. Any thread may call it; does not block.
  virtual void BeatSoon() = 0;

  // True if another worker computes a step, according to the chief's last message. While true, a long wait
  // for other workers is no sign of a loss. Any thread may call it.
  virtual bool peers_compute() const = 0;

  // Reads elements [begin, begin + out.size()) of a slot (0: parameters) from the checkpoint the job resumes
  // from. Blocks until the elements have arrived or the chief is lost.
  virtual absl::Status ReadCheckpoint(int slot, int64_t begin, absl::Span<float> out) = 0;

  // Reads a file that the job names as chief://PATH, from `offset` on. Calls `take` with each piece of bytes,
  // until the end of the file or until `take` returns an error, which ReadDataFile then returns. Blocks until
  // the bytes have arrived or the chief is lost. Unavailable: the stream broke; another call can read the
  // rest.
  using TakeBytes = absl::FunctionRef<absl::Status(absl::string_view bytes)>;
  virtual absl::Status ReadDataFile(const std::string& path, int64_t offset, TakeBytes take) = 0;

  // Streams ranges into the checkpoint being saved: `source` calls `write` any number of times, with ranges
  // of any length. Blocks until the chief has received all ranges or is lost.
  using WriteRange = absl::FunctionRef<absl::Status(int slot, int64_t begin, absl::Span<const float> values)>;
  using Source = absl::FunctionRef<absl::Status(WriteRange write)>;
  virtual absl::Status WriteCheckpoint(int64_t save_id, Source source) = 0;

  // Sends the queued messages and ends the session. Blocks while messages are being sent, then until the
  // chief ends the stream; the session is cancelled after a second without progress.
  virtual void Close() = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_TASK_SESSION_H_
