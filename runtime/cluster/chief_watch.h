// Decides from the time passed whether a task has lost its chief, and when to end a task that hangs after the
// loss. Pure: one thread calls Look repeatedly and acts on the verdict.
//
//   present -> lost (calls to the chief are cancelled, the task ends by itself) -> stuck (it did not end)
//
// Time in which the process was stopped or not scheduled is not counted as silence of the chief: of the time
// between two calls of Look, at most `most_between` counts.
#ifndef TETHYS_RUNTIME_CLUSTER_CHIEF_WATCH_H_
#define TETHYS_RUNTIME_CLUSTER_CHIEF_WATCH_H_

#include <algorithm>
#include <cstdint>

#include "runtime/base/clock.h"

namespace tethys {

class ChiefWatch {
 public:
  enum class Verdict { kPresent, kLost, kStuck };

  // The chief counts as lost once nothing was heard from it for `silence`. The task counts as stuck if it has
  // not ended `grace` later.
  ChiefWatch(Nanoseconds silence, Nanoseconds grace, Nanoseconds most_between, Nanoseconds now)
      : silence_(silence), grace_(grace), most_between_(most_between), looked_(now) {}

  // `heard`: the number of messages received so far. `broken`: the session has ended unexpectedly.
  Verdict Look(Nanoseconds now, int64_t heard, bool broken) {
    waited_ += std::min(now - looked_, most_between_);
    looked_ = now;
    if (verdict_ == Verdict::kPresent && heard != heard_) {
      heard_ = heard;
      waited_ = 0;
    }
    if (verdict_ == Verdict::kPresent && (broken || waited_ > silence_)) {
      verdict_ = Verdict::kLost;
      waited_ = 0;
    }
    if (verdict_ == Verdict::kLost && waited_ > grace_) verdict_ = Verdict::kStuck;
    return verdict_;
  }

 private:
  const Nanoseconds silence_;
  const Nanoseconds grace_;
  const Nanoseconds most_between_;
  Nanoseconds looked_;
  int64_t heard_ = 0;
  Nanoseconds waited_ = 0;  // Silence since the last message; once the chief is lost, time since the loss.
  Verdict verdict_ = Verdict::kPresent;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_CHIEF_WATCH_H_
