// Every worker holds all parameters. A thread of the strategy sums gradients over the workers by all-reduce,
// bucket by bucket, while backward runs; EnqueueEnd reduces the rest. Then every worker applies the same
// update to the same sums, so that parameters stay bit-equal without ever being sent.
//
// Made and called by the training thread. EnqueueEnd blocks for the exchange; its deadline is the
// communicator's.
#ifndef TETHYS_COLLECTIVES_MIRRORED_STRATEGY_H_
#define TETHYS_COLLECTIVES_MIRRORED_STRATEGY_H_

#include <memory>
#include <string>

#include "absl/types/optional.h"
#include "collectives/communicator.h"
#include "runtime/replica_update.h"
#include "runtime/strategy.h"

namespace tethys {

struct MirroredOptions {
  int64_t bucket_bytes = 1024 * 1024;  // A bucket closes once it holds this many.
  std::string exchange = {};           // Describes the communicator, for logs and reports.
  // Whether gradients may lie in the communicator's own memory. The same on every rank; false if some ranks
  // copy gradients from a device (runtime/staged_strategy.h), because they need memory of that device.
  bool in_memory_of_communicator = true;
};

// `update` covers all variables of the arena; absent: the sums stay in the gradient arena, and the caller
// updates. Arenas and slots are host memory. InvalidArgument: bucket_bytes < 1.
absl::StatusOr<std::unique_ptr<Strategy>> CreateMirroredStrategy(std::unique_ptr<Communicator> communicator,
                                                                 absl::optional<ReplicaUpdate> update,
                                                                 MirroredOptions options);

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_MIRRORED_STRATEGY_H_
