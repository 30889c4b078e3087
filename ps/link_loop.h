// The completion queue of ServerLinks, and the thread that runs the completions. A program that owns links
// ends them in this order:
//
//   { MutexLock lock(mu); link.Stop(); loop.ShutDown(); }
//   loop.Join(servers);
#ifndef TETHYS_PS_LINK_LOOP_H_
#define TETHYS_PS_LINK_LOOP_H_

#include <grpcpp/completion_queue.h>

#include "absl/types/span.h"
#include "ps/client_options.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"

namespace tethys {

class LinkLoop {
 public:
  grpc::CompletionQueue& queue() { return queue_; }

  // Starts the thread. ResourceExhausted: no thread can be started.
  absl::Status Start();
  // Requires that all links are stopped, and the lock of the links, because no link may begin an operation
  // afterwards.
  void ShutDown() { queue_.Shutdown(); }
  // Blocks until all operations have ended. gRPC ends a cancelled call only after it has finished writes in
  // progress, which read the caller's memory. If the calls do not end soon, the connections to `servers` are
  // shut down.
  void Join(absl::Span<const ServerAddress> servers);

 private:
  void Run();

  grpc::CompletionQueue queue_;
  Mutex mu_;
  CondVar drained_changed_;
  bool drained_ ABSL_GUARDED_BY(mu_) = false;  // The queue has been shut down and holds no completion.
  Thread thread_;
};

}  // namespace tethys

#endif  // TETHYS_PS_LINK_LOOP_H_
