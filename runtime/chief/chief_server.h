// The chief's gRPC service (proto/chief.proto): admits sessions after their handshake and carries messages to
// and from the chief's loop. A thread of gRPC's serves each session.
#ifndef TETHYS_RUNTIME_CHIEF_CHIEF_SERVER_H_
#define TETHYS_RUNTIME_CHIEF_CHIEF_SERVER_H_

#include <memory>
#include <string>

#include "absl/types/span.h"
#include "proto/chief.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/chief/chief_actions.h"
#include "runtime/cluster/job_secret.h"

namespace tethys {

// Called on gRPC's threads, several at once; may block.
class ChiefEvents {
 public:
  virtual ~ChiefEvents() = default;
  // An error refuses the session.
  virtual absl::Status Admit(TaskId task, uint32_t incarnation) = 0;
  // In the order of the session.
  virtual void OnMessage(TaskId task, uint32_t incarnation, proto::FromTask message) = 0;
  // The last event of an admitted session.
  virtual void OnGone(TaskId task, uint32_t incarnation) = 0;
  // Part of the open save.
  virtual absl::Status WriteChunk(int64_t save_id, int slot, int64_t begin,
                                  absl::Span<const float> values) = 0;
  // From the checkpoint the job resumes from.
  virtual absl::Status ReadRange(int slot, int64_t begin, absl::Span<float> out) = 0;
};

class ChiefServer {
 public:
  static constexpr int kMostWaiting = 4096;

  // `listen`: host:port, port 0 for any free one. `secret` is the chief's. AlreadyExists when the port is
  // taken. `events` outlives the server.
  static absl::StatusOr<std::unique_ptr<ChiefServer>> Start(const std::string& listen,
                                                            const JobSecret& secret, const Clock& clock,
                                                            ChiefEvents& events);
  // Ends all sessions and waits for their threads.
  virtual ~ChiefServer() = default;

  virtual std::string address() const = 0;
  // Any thread, never blocks: a thread of the session's own writes. To that life of the task; where it is
  // gone, or a later one has taken its place, nothing happens. A task that reads nothing until kMostWaiting
  // orders wait for it loses its session.
  virtual void Send(TaskId task, uint32_t incarnation, const proto::ToTask& order) = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_CHIEF_SERVER_H_
