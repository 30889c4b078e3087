// The messages that a task has sent and that the chief may not have received. Pure.
#ifndef TETHYS_RUNTIME_CLUSTER_SENT_MESSAGES_H_
#define TETHYS_RUNTIME_CLUSTER_SENT_MESSAGES_H_

#include <cstdint>
#include <deque>
#include <iterator>

#include "proto/chief.pb.h"

namespace tethys {

class SentMessages {
 public:
  void Add(const proto::FromTask& message) { kept_.push_back(message); }

  // The chief has received the first `count` messages of the session.
  void Received(int64_t count) {
    for (; dropped_ < count && !kept_.empty(); ++dropped_) kept_.pop_front();
  }
  // True if the chief can have received exactly `count` messages of the session.
  bool May(int64_t count) const {
    return count >= dropped_ && count - dropped_ <= static_cast<int64_t>(kept_.size());
  }
  // Moves the messages that the chief has not received to the front of `queue`.
  void TakeTo(std::deque<proto::FromTask>& queue) {
    queue.insert(queue.begin(), std::make_move_iterator(kept_.begin()), std::make_move_iterator(kept_.end()));
    kept_.clear();
  }

 private:
  std::deque<proto::FromTask> kept_;
  int64_t dropped_ = 0;  // The number of messages before kept_.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_SENT_MESSAGES_H_
