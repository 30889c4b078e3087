// A parameter store's state of one worker: its incarnation, its last applied push, and the arrived parts of
// its current push. Plain data.
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
  Frame applied;                   // Header of the last applied push; sequence 0: none yet.
  int64_t staleness = 0;           // Staleness of the last applied push.
  Frame push;                      // Header of the current push; sequence 0: there is none.
  PushParts parts;                 // Arrived parts of the current push.
  int64_t received = 0;            // Elements of shards in `parts`.
  bool awaits_norm = false;        // The worker asked for the norm before it was known.
  std::map<int64_t, Frame> pulls;  // Pulls held back until their step may begin, by first element.

  Arena staging;  // The current push's values; empty if pushes are added to the sum on arrival.

  void ForgetPush() {
    push = Frame{};
    parts.Clear();
    received = 0;
    awaits_norm = false;
  }
};

}  // namespace tethys

#endif  // TETHYS_PS_PUSH_INBOX_H_
