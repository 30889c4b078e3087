// Plans the messages of a worker's step from the placement and the order in which backward produces
// gradients. Pure, thread-safe.
#ifndef TETHYS_PS_MESSAGE_PLAN_H_
#define TETHYS_PS_MESSAGE_PLAN_H_

#include <vector>

#include "proto/parameter_server.pb.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// A message, sent once every range of ready_order whose index is in `waits_for` is announced.
struct StepMessage {
  int server = 0;
  Range range;
  std::vector<int> waits_for;
};

// Takes the runs of each server's shards in ready order, merges adjacent ones up to message_bytes and cuts
// larger ones. Every message is within one run of its server (shard_layout.h), and together they cover each
// run once. InvalidArgument if ready_order omits part of a shard, or the placement contradicts itself.
absl::StatusOr<std::vector<StepMessage>> PlanMessages(const proto::Placement& placement, int64_t arena_size,
                                                      absl::Span<const Range> ready_order,
                                                      int64_t message_bytes);

}  // namespace tethys

#endif  // TETHYS_PS_MESSAGE_PLAN_H_
