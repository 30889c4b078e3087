// Plans the messages of a worker's step from the placement of shards and the order in which the backward pass
// produces gradients. Pure, thread-safe.
#ifndef TETHYS_PS_MESSAGE_PLAN_H_
#define TETHYS_PS_MESSAGE_PLAN_H_

#include <vector>

#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// A message, which is sent as soon as all its gradients are ready. `waits_for` lists the message's ranges by
// their indices in ready_order.
struct StepMessage {
  int server = 0;
  Range range;
  std::vector<int> waits_for;
};

// The largest number of unanswered messages to one server (the window). Without a window, a worker's
// gradients run ahead of the answers or of other workers' gradients, and fill the links' queues. Measured
// over links of 200 Mbit/s, as the ratio of a round's time to its lower bound (tests/bench/link_bench.cc):
// with two workers, two servers and 400 KB in messages of 12 KiB, 1.07 for a window of two, 1.10 for three,
// 1.15 for four; with one worker, one server and 4 MB, 1.10 for three, 1.33 without a window. A window of two
// is too small for longer links.
inline constexpr int kMessageWindow = 3;

// The size of a message in bytes: the job's tuning.message_bytes or, without one, a size that suits the
// consistency model and the network. `one_machine`: all servers listen on loopback. Requires servers >= 1.
int64_t MessageBytes(const proto::Job& job, int64_t arena_size, int servers, bool one_machine);

// Cuts each server's runs (ranges of the arena with shards of one server only, shard_layout.h) into messages
// in ready order: adjacent pieces are merged up to message_bytes, and larger pieces are cut. Every message is
// within one run of its server, and together the messages cover each run once. InvalidArgument if ready_order
// omits part of a shard, or the placement contradicts itself.
absl::StatusOr<std::vector<StepMessage>> PlanMessages(const proto::Placement& placement, int64_t arena_size,
                                                      absl::Span<const Range> ready_order,
                                                      int64_t message_bytes);

}  // namespace tethys

#endif  // TETHYS_PS_MESSAGE_PLAN_H_
