// Locks with Clang's thread-safety annotations. They wrap the standard library's locks, because
// ThreadSanitizer reports false races for the locks of the distribution's Abseil.
#ifndef TETHYS_RUNTIME_BASE_MUTEX_H_
#define TETHYS_RUNTIME_BASE_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "runtime/base/clock.h"

namespace tethys {

class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

class CondVar {
 public:
  // May wake without cause: wait in a loop over the condition.
  void Wait(Mutex& mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  // Returns false if `timeout` passed without a wake-up.
  bool WaitFor(Mutex& mutex, Nanoseconds timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    // wait_until on the system clock calls pthread_cond_timedwait, which every version of ThreadSanitizer
    // intercepts. A step of the wall clock only makes one wait longer or shorter, and callers wait in loops.
    const auto until = std::chrono::system_clock::now() + std::chrono::nanoseconds(timeout > 0 ? timeout : 0);
    const bool woken = condition_.wait_until(lock, until) == std::cv_status::no_timeout;
    lock.release();
    return woken;
  }
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_MUTEX_H_
