// The loop of a parameter server: a thread that runs the completions of the server's queue, and functions
// that other threads hand over.
#ifndef TETHYS_PS_SERVER_LOOP_H_
#define TETHYS_PS_SERVER_LOOP_H_

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>

#include <deque>
#include <functional>
#include <memory>

#include "absl/functional/function_ref.h"
#include "ps/data_stream.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"

namespace tethys {

class ServerLoop {
 public:
  explicit ServerLoop(std::unique_ptr<grpc::ServerCompletionQueue> queue)
      : queue_(std::move(queue)), woken_([this](bool) { RunPosted(); }) {}
  // Requires that the server of the queue was destroyed.
  ~ServerLoop() { End(); }

  grpc::ServerCompletionQueue& queue() { return *queue_; }
  // ResourceExhausted: no thread can be started.
  absl::Status Start();
  bool running() const { return thread_.running(); }
  // Blocks until all completions have run. Requires that the server of the queue is shut down.
  void End();

  // Run `function` on the loop, in the order of the calls. Called on any thread after Start; Call, which
  // returns the function's result, on any thread but the loop's.
  absl::Status Call(absl::FunctionRef<absl::Status()> function);
  void Post(std::function<void()> function);

 private:
  void Run();
  void RunPosted();

  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  Thread thread_;
  bool ended_ = false;
  Completion woken_;
  grpc::Alarm wake_alarm_;

  Mutex mu_;
  CondVar called_;  // A function of Call has returned.
  bool wake_pending_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<std::function<void()>> posted_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tethys

#endif  // TETHYS_PS_SERVER_LOOP_H_
