// A parameter store's state of one worker: its incarnation, its last applied push, its current push and the
// parts of it that have arrived. Plain data.
#ifndef TETHYS_PS_PUSH_INBOX_H_
#define TETHYS_PS_PUSH_INBOX_H_

#include <cstdint>
#include <map>

#include "ps/push_parts.h"
#include "runtime/tensor/arena.h"
#include "runtime/tensor/frame.h"
#include "runtime/tensor/variable.h"

namespace tethys {

struct PushInbox {
  uint32_t incarnation = 0;
  Frame applied;          // Header of the last applied push; sequence 0: none yet.
  int64_t staleness = 0;  // Staleness of that push.
  Frame push;             // Header of the current push; sequence 0: there is none.
  PushParts parts;        // Arrived parts of the current push.
  int64_t received = 0;   // Elements of shards in `parts`.
  // The fields up to `pulls` are for stale-synchronous training only.
  bool held = false;               // The push is applied, but its answer is held back.
  bool takes_part = true;          // False from a loss until the replacement is enrolled.
  uint64_t clock = 0;              // Steps made: one more than the step of the last complete push.
  std::map<int64_t, Frame> pulls;  // Pulls held back, by first element.

  Arena staging;  // Empty where pushes are added to the sum as they arrive.

  void ForgetPush() {
    push = Frame{};
    parts.Clear();
    received = 0;
    held = false;
  }
};

}  // namespace tethys

#endif  // TETHYS_PS_PUSH_INBOX_H_
