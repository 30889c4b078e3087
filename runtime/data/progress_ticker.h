// Shows progress (CacheLock::ShowProgress) while code runs that reports no progress itself, such as the
// opening of a large file that has to be unpacked. Stops after kMost, so that other processes do not wait
// forever for a process that hangs.
#ifndef TETHYS_RUNTIME_DATA_PROGRESS_TICKER_H_
#define TETHYS_RUNTIME_DATA_PROGRESS_TICKER_H_

#include "absl/functional/function_ref.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"
#include "runtime/base/thread.h"

namespace tethys {

class ProgressTicker {
 public:
  // If no thread can be started, no progress is shown.
  explicit ProgressTicker(absl::FunctionRef<void()> progressed) : progressed_(progressed) {
    thread_.Start([this] { Tick(); }).IgnoreError();
  }
  ~ProgressTicker() {
    {
      MutexLock lock(mu_);
      ended_ = true;
    }
    wake_.NotifyAll();
    thread_.Join();
  }
  ProgressTicker(const ProgressTicker&) = delete;
  ProgressTicker& operator=(const ProgressTicker&) = delete;

 private:
  static constexpr Nanoseconds kInterval = 5 * kSecond, kMost = 1800 * kSecond;

  void Tick() {
    const MonotonicClock clock;
    const Nanoseconds begin = clock.Now();
    MutexLock lock(mu_);
    while (!ended_ && clock.Now() - begin < kMost) {
      progressed_();
      wake_.WaitFor(mu_, kInterval);
    }
  }

  const absl::FunctionRef<void()> progressed_;
  Mutex mu_;
  CondVar wake_;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  Thread thread_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_PROGRESS_TICKER_H_
