// The chief's gRPC service (proto/chief.proto): admits sessions after their handshake and carries messages to
// and from the chief's loop. One of gRPC's threads serves each session.
#ifndef TETHYS_RUNTIME_CHIEF_CHIEF_SERVER_H_
#define TETHYS_RUNTIME_CHIEF_CHIEF_SERVER_H_

#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/chief.pb.h"
#include "proto/chief_snapshot.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/chief/chief_actions.h"
#include "runtime/cluster/job_secret.h"

namespace tethys {

// Handlers of the server's events. Called on gRPC's threads, several at once; may block.
class ChiefEvents {
 public:
  virtual ~ChiefEvents() = default;
  // Returns OK if the task may open a session. After an error, the session is refused. `incarnation` is the
  // number of the task's process: if another process replaces it, the new process has a higher number.
  virtual absl::Status Admit(TaskId task, uint32_t incarnation) = 0;
  // Called when a task opens its session again, because the chief has a successor. Returns the number of
  // messages of the session that the chief has received.
  virtual absl::StatusOr<int64_t> Resume(TaskId, uint32_t /*incarnation*/) {
    return absl::AbortedError("this chief has no predecessor");
  }
  // Called for each message; messages of one session come in order.
  virtual void OnMessage(TaskId task, uint32_t incarnation, proto::FromTask message) = 0;
  // Called when the session has ended; no further event of this session follows.
  virtual void OnGone(TaskId task, uint32_t incarnation) = 0;
  // Writes `values` to the checkpoint of the open save.
  virtual absl::Status WriteChunk(int64_t save_id, int slot, int64_t begin,
                                  absl::Span<const float> values) = 0;
  // Reads values from the checkpoint that the job resumes from.
  virtual absl::Status ReadRange(int slot, int64_t begin, absl::Span<float> out) = 0;
  // Reads a data file that the job names as chief://PATH, like ChiefFiles::Read.
  virtual absl::Status ReadDataFile(const std::string& path, int64_t offset,
                                    absl::FunctionRef<absl::Status(absl::string_view bytes)> take) = 0;
};

class ChiefServer {
 public:
  static constexpr int kMostWaiting = 4096;

  // A server that does not listen yet. `secret`: the secret that the chief's process holds. `resumable`: the
  // server keeps the orders of each session until the task says that it has received them, and tells the task
  // that it may open its session again at a successor of this chief. `events` must outlive the server.
  static std::unique_ptr<ChiefServer> Create(const JobSecret& secret, bool resumable, const Clock& clock,
                                             ChiefEvents& events);
  // `listen`: host:port; port 0 takes any free port. AlreadyExists: the port is in use.
  virtual absl::Status Listen(const std::string& listen) = 0;
  // Create without resumable, then Listen.
  static absl::StatusOr<std::unique_ptr<ChiefServer>> Start(const std::string& listen,
                                                            const JobSecret& secret, const Clock& clock,
                                                            ChiefEvents& events);
  // Ends all sessions and waits for their threads.
  virtual ~ChiefServer() = default;

  // Writes the orders of all sessions that their tasks have not confirmed. Does not block.
  virtual void Save(proto::ChiefServerState& state) = 0;
  // Lets the tasks open these sessions again. Called at most once, and before Listen. InvalidArgument: no
  // server can have written `state`.
  virtual absl::Status Restore(const proto::ChiefServerState& state) = 0;

  virtual std::string address() const = 0;
  // Queues an order for one incarnation of the task. The order is dropped if the incarnation's session has
  // ended or a later incarnation has joined. May be called on any thread; never blocks, because a separate
  // thread writes to each session. A task that leaves kMostWaiting orders unread loses its session.
  // A resumable server that does not listen yet keeps the order for the session that the task will open
  // again.
  virtual void Send(TaskId task, uint32_t incarnation, const proto::ToTask& order) = 0;
  // The task has received the first `count` orders of its session.
  virtual void OrdersReceived(TaskId task, uint32_t incarnation, int64_t count) = 0;
  // Accepts no more calls, and waits until the calls in progress have ended; cancels calls that have not
  // ended after `timeout`.
  virtual void EndCalls(Nanoseconds timeout) = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_CHIEF_SERVER_H_
