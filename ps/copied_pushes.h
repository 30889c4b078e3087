// The state of the copy of a store's shards on another server, for a store that applies whole pushes. Used by
// the store's thread (parameter_store_copies.cc).
//
// While a copy is on its way, the store makes no update, because the values are sent from its memory. Pushes
// that are complete meanwhile wait, and the next copy contains the updates of all of them:
//
//   push 1 --update--> copy 1 ------------> answer 1
//   push 2, push 3           (wait)         --updates--> copy 2 ------------> answers 2 and 3
#ifndef TETHYS_PS_COPIED_PUSHES_H_
#define TETHYS_PS_COPIED_PUSHES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/types/optional.h"
#include "proto/chief.pb.h"
#include "proto/shard_copy.pb.h"

namespace tethys {

// The newest records of applied pushes.
class PushLog {
 public:
  // A server reports its pushes several times a second, so the lost ones are among far fewer.
  static constexpr size_t kMost = size_t{1} << 15;

  void Add(const proto::AppliedPush& push) {
    pushes_.push_back(push);
    if (pushes_.size() > kMost) pushes_.pop_front();
  }
  void Clear() { pushes_.clear(); }
  const std::deque<proto::AppliedPush>& pushes() const { return pushes_; }

 private:
  std::deque<proto::AppliedPush> pushes_;
};

// A copy that another server is to have from now on.
struct StoreCopy {
  int64_t number = 0;
  proto::PushBook book = {};
};

struct CopiedPushes {
  // An event of the consistency's rule that waits until the copy is complete.
  struct Event {
    int worker = 0;
    absl::optional<proto::Fence> fence = absl::nullopt;  // Absent: the worker's push is complete.
  };

  int64_t number = 0;                            // Of the newest copy; copies count from 1.
  bool open = false;                             // The other server does not have the newest copy yet.
  std::vector<int> unanswered = {};              // The workers whose pushes were applied for the open copy.
  std::vector<proto::AppliedPush> records = {};  // Of these pushes.
  std::vector<Event> waiting = {};
  PushLog log = {};
};

}  // namespace tethys

#endif  // TETHYS_PS_COPIED_PUSHES_H_
