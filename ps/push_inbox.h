// One worker as a parameter store sees it: its incarnation, its last applied push, the push under way and
// what is here of it. Plain data of the store's.
#ifndef TETHYS_PS_PUSH_INBOX_H_
#define TETHYS_PS_PUSH_INBOX_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "runtime/tensor/arena.h"
#include "runtime/tensor/frame.h"
#include "runtime/tensor/variable.h"

namespace tethys {

struct PushInbox {
  struct Part {
    Range arena;
    Range local;
    int64_t waiting = 0;    // Elements of shards that are not updated.
    bool answered = false;  // Updated, and the worker told.
  };

  uint32_t incarnation = 0;
  Frame applied;            // Header of the last applied push; sequence 0: none yet.
  int64_t staleness = 0;    // Of that push.
  Frame push;               // Header of the push under way; sequence 0: there is none.
  std::vector<Part> parts;  // What is here of it,
  int64_t received = 0;     // in elements of shards.
  // Stale-synchronously:
  bool held = false;  // The push is applied, its answer held back.
  bool takes_part = true;
  uint64_t clock = 0;              // Steps made: one more than the step of the last whole push.
  std::map<int64_t, Frame> pulls;  // Held back, by first element.
  Arena staging;                   // Allocated on first use.

  // The part that is exactly `local`, or null.
  const Part* Find(Range local) const {
    const auto it = std::find_if(parts.begin(), parts.end(), [&](const Part& p) { return p.local == local; });
    return it == parts.end() ? nullptr : &*it;
  }
  void ForgetPush() {
    push = Frame{};
    parts.clear();
    received = 0;
    held = false;
  }
};

}  // namespace tethys

#endif  // TETHYS_PS_PUSH_INBOX_H_
