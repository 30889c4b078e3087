// One worker as a parameter store sees it: its incarnation, its last applied push, the push under way and
// what is here of it. Plain data of the store's.
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
  int64_t staleness = 0;  // Of that push.
  Frame push;             // Header of the push under way; sequence 0: there is none.
  PushParts parts;        // What is here of it,
  int64_t received = 0;   // in elements of shards.
  // Stale-synchronously:
  bool held = false;  // The push is applied, its answer held back.
  bool takes_part = true;
  uint64_t clock = 0;              // Steps made: one more than the step of the last whole push.
  std::map<int64_t, Frame> pulls;  // Held back, by first element.
  Arena staging;                   // Allocated on first use.

  void ForgetPush() {
    push = Frame{};
    parts.Clear();
    received = 0;
    held = false;
  }
};

}  // namespace tethys

#endif  // TETHYS_PS_PUSH_INBOX_H_
