// All code of Tethys starts threads through this class, not through std::thread. Starting a thread can fail
// on any machine and in any container, because a limit on processes, threads or memory is reached.
// std::thread then throws, but code of Tethys must not throw. Only one thread at a time may use a Thread
// object.
#ifndef TETHYS_RUNTIME_BASE_THREAD_H_
#define TETHYS_RUNTIME_BASE_THREAD_H_

#include <pthread.h>

#include <functional>
#include <string>
#include <utility>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace tethys {

class Thread {
 public:
  Thread() = default;
  ~Thread() { Join(); }
  Thread(Thread&& other) noexcept : id_(other.id_), running_(std::exchange(other.running_, false)) {}
  Thread& operator=(Thread&&) = delete;

  // Starts a thread that runs `body`. Requires that no thread of this object is running. ResourceExhausted:
  // the system starts no further thread; the error names the limits of this process, and nothing has changed.
  absl::Status Start(std::function<void()> body);

  // True from Start to Join or Detach, even after `body` has returned.
  bool running() const { return running_; }
  // Waits until `body` has returned, if a thread is running.
  void Join();
  // Lets a running thread go on without this object.
  void Detach();

 private:
  pthread_t id_{};
  bool running_ = false;
};

// The error of a failed pthread_create or fork. `what` says which action failed; it begins the message.
// EAGAIN and ENOMEM become ResourceExhausted, with the limits of this process and the remedy.
absl::Status StartError(int error, absl::string_view what);

// Checks that `count` threads can run at the same time, by starting and ending them. ResourceExhausted: the
// system does not start so many threads. Call this before the process uses a library that aborts, or waits
// forever, if the library cannot start a thread.
absl::Status CheckThreads(int count);

// Runs `work` on a thread of its own and calls `meanwhile` every `interval` until `work` has returned. If no
// thread can be started, `work` runs on the calling thread.
void RunBeside(Nanoseconds interval, const std::function<void()>& work,
               const std::function<void()>& meanwhile);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_THREAD_H_
