// One opening of a task's session at the chief: its calls, and the stream of messages and orders. A task
// whose chief has a successor opens its session again with another object.
#ifndef TETHYS_RUNTIME_CLUSTER_CHIEF_SESSION_H_
#define TETHYS_RUNTIME_CLUSTER_CHIEF_SESSION_H_

#include <cstdint>
#include <memory>

#include "absl/types/optional.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/cluster/chief_calls.h"
#include "runtime/cluster/task_options.h"

namespace tethys {

class ChiefSession {
 public:
  // `options`: connect_timeout limits the wait for each answer of the chief.
  ChiefSession(const TaskOptions& options, const Clock& clock) : options_(options), clock_(clock) {}

  // Blocks until the chief has admitted the task. `orders_received`: the number of orders that the task has
  // received, if it opens the session again. Unavailable, DeadlineExceeded: the chief cannot be reached.
  absl::Status Open(absl::optional<int64_t> orders_received);

  ChiefCalls& calls() { return calls_; }
  using Stream = grpc::ClientReaderWriter<proto::FromTask, proto::ToTask>;
  Stream& stream() { return *stream_; }  // Requires that Open has succeeded.
  // Why the stream has ended; called once no order can be read any more.
  absl::Status Finish();
  // Cancels the stream. Any thread.
  void Cancel() { calls_.session().TryCancel(); }

  // The chief keeps a log, so that the session may be opened again at a successor.
  bool resumable() const { return resumable_; }
  // The number of messages that the successor knows from the session; -1: it is no successor.
  int64_t messages_received() const { return messages_received_; }

 private:
  absl::Status BeAdmitted();

  const TaskOptions options_;
  const Clock& clock_;
  ChiefCalls calls_{options_};
  std::unique_ptr<Stream> stream_;
  bool resumable_ = false;
  int64_t messages_received_ = -1;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_CHIEF_SESSION_H_
