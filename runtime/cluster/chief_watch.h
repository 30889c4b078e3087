// Decides from the passing of time whether a task has lost its chief, and when to give the task up. Pure:
// looked at again and again by one thread, which carries out what it says.
//
//   present -> lost (calls to the chief are cancelled, the task ends by itself) -> stuck (it did not)
//
// A process that was stopped, or got no processor, did not listen meanwhile: between two looks no more than
// `most_between` counts.
#ifndef TETHYS_RUNTIME_CLUSTER_CHIEF_WATCH_H_
#define TETHYS_RUNTIME_CLUSTER_CHIEF_WATCH_H_

#include <algorithm>
#include <cstdint>

#include "runtime/base/clock.h"

namespace tethys {

class ChiefWatch {
 public:
  enum class Verdict { kPresent, kLost, kStuck };

  // Lost after `silence`, stuck `grace` later.
  ChiefWatch(Nanoseconds silence, Nanoseconds grace, Nanoseconds most_between, Nanoseconds now)
      : silence_(silence), grace_(grace), most_between_(most_between), looked_(now) {}

  // `heard`: how many messages have come so far. `broken`: the session has ended though nobody wanted it to.
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
  Nanoseconds waited_ = 0;  // Since something was heard; once it is lost, since then.
  Verdict verdict_ = Verdict::kPresent;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_CHIEF_WATCH_H_
