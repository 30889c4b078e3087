// An event loop: one thread runs posted functions in order and, at intervals, a function `tick`. State
// touched only by functions on the loop needs no lock.
#ifndef TETHYS_RUNTIME_BASE_EVENT_LOOP_H_
#define TETHYS_RUNTIME_BASE_EVENT_LOOP_H_

#include <deque>
#include <functional>
#include <utility>

#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"

namespace tethys {

class EventLoop {
 public:
  explicit EventLoop(const Clock& clock) : clock_(clock) {}

  // Queues a function. Any thread; never blocks. Functions posted after Stop are dropped.
  void Post(std::function<void()> function);

  // Runs on the calling thread until Stop: calls posted functions as they come, and `tick` every `interval`.
  void Run(Nanoseconds interval, const std::function<void()>& tick);

  // Ends Run after the function that is running now. Any thread.
  void Stop();

 private:
  const Clock& clock_;
  Mutex mu_;
  CondVar changed_;
  std::deque<std::function<void()>> posted_ ABSL_GUARDED_BY(mu_);
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_EVENT_LOOP_H_
