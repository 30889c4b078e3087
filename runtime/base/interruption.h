// Ends the waits of a thread from another thread. The owner of a wait registers a Watch, which wakes the
// waiting thread; the thread then returns the error of Check. Unlike a deadline, an interruption says why.
//
//   waiting thread:  const Interruption::Watch watch(&interruption,
//                                                    [&](const absl::Status&) { wake.Signal(); });
//                    ... poll wake.fd() ...  TETHYS_RETURN_IF_ERROR(interruption.Check());
//   other thread:    interruption.Raise(absl::AbortedError("the group of workers changes"));
//
// Thread-safe; nothing blocks except the destructor of Watch.
#ifndef TETHYS_RUNTIME_BASE_INTERRUPTION_H_
#define TETHYS_RUNTIME_BASE_INTERRUPTION_H_

#include <atomic>
#include <functional>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/base/status.h"

namespace tethys {

class Interruption {
 public:
  Interruption() = default;
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  // Makes Check return `status`, which must be an error, and calls every watch, on this thread. Only the
  // first call has an effect.
  void Raise(const absl::Status& status);
  // Returns OK before Raise is called, and the status of Raise afterwards. Before Raise, costs one atomic
  // load.
  absl::Status Check() const;

  // Calls `raised` with the status when Raise is called, or at once if Raise was called before. `raised` runs
  // on the thread that calls Raise or on the thread that constructs the Watch. It must not block, and must
  // not use the interruption or its watches. If `interruption` is null, `raised` is never called. The
  // interruption must outlive the watch.
  class Watch {
   public:
    Watch(Interruption* interruption, std::function<void(const absl::Status& status)> raised);
    // Blocks while `raised` runs on another thread. Afterwards `raised` is not called any more.
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    friend class Interruption;
    Interruption* const interruption_;
    const std::function<void(const absl::Status&)> raised_;
  };

 private:
  std::atomic<bool> raised_{false};  // True once Raise has set status_.
  mutable Mutex mu_;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  std::vector<const Watch*> watches_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_INTERRUPTION_H_
