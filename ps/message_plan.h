// Which messages a worker's step is made of: pure arithmetic over the placement and the order in which
// backward makes the gradients. Thread-safe.
#ifndef TETHYS_PS_MESSAGE_PLAN_H_
#define TETHYS_PS_MESSAGE_PLAN_H_

#include <vector>

#include "proto/parameter_server.pb.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// Goes out once every range of ready_order named in `waits_for` is announced.
struct StepMessage {
  int server = 0;
  Range range;
  std::vector<int> waits_for;
};

// Runs of each server's shards, taken in ready order, merged where they touch and closed at message_bytes;
// what is larger is cut. Every message lies within one run of its server (shard_layout.h), and together they
// cover each run once. InvalidArgument when ready_order leaves part of a shard out, or the placement
// contradicts itself.
absl::StatusOr<std::vector<StepMessage>> PlanMessages(const proto::Placement& placement, int64_t arena_size,
                                                      absl::Span<const Range> ready_order,
                                                      int64_t message_bytes);

}  // namespace tethys

#endif  // TETHYS_PS_MESSAGE_PLAN_H_
