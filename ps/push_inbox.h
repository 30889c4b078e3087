// A parameter store's state of one worker: its incarnation, its last applied push, and the arrived parts of
// its current push. Used by the store's thread.
#ifndef TETHYS_PS_PUSH_INBOX_H_
#define TETHYS_PS_PUSH_INBOX_H_

#include <cstdint>
#include <map>

#include "absl/functional/function_ref.h"
#include "proto/chief.pb.h"
#include "ps/push_parts.h"
#include "ps/shard_layout.h"
#include "runtime/tensor/frame.h"
#include "runtime/tensor/variable.h"

namespace tethys {

struct PushInbox {
  int worker = 0;  // The worker's index.
  uint32_t incarnation = 0;
  Frame applied;                   // Header of the last applied push; sequence 0: none yet.
  int64_t staleness = 0;           // Staleness of the last applied push.
  Frame push;                      // Header of the current push; sequence 0: there is none.
  PushParts parts;                 // Arrived parts of the current push.
  int64_t received = 0;            // Number of elements of shards in `parts`, without padding.
  bool awaits_norm = false;        // The worker has requested a norm that is not known yet.
  std::map<int64_t, Frame> pulls;  // Pulls held back until their step may begin, keyed by first element.

  bool has_push() const { return push.sequence != 0; }
  // The current push or, if there is none, the last applied push.
  const Frame& last_push() const { return has_push() ? push : applied; }

  // Takes a part of the current push. `elements` of its elements belong to shards; the other elements are
  // padding.
  void Add(const Frame& part, Range local, int64_t elements);
  // Marks the elements of `local` as updated. Calls `updated` for every part that is now completely updated.
  void MarkUpdated(const ShardLayout& layout, Range local, absl::FunctionRef<void(PushParts::Part&)> updated);
  // Notes that the current push was applied, alone or with pushes of other workers, in the update to
  // `version`. Returns the record of the push for the chief's journal.
  proto::AppliedPush Apply(int64_t version, int64_t staleness);
  void ForgetPush();
  // Begins anew with the worker's process of the given incarnation, which has pushed nothing yet.
  void Replace(uint32_t incarnation);
};

}  // namespace tethys

#endif  // TETHYS_PS_PUSH_INBOX_H_
