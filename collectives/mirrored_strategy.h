// Mirrored training: every worker holds all parameters. While backward runs, a thread of the strategy sums
// gradients over the workers by all-reduce, bucket by bucket. EnqueueEnd reduces the remaining buckets. Then
// every worker applies the same update to the same sums, so that parameters stay bit-equal although they are
// never sent.
//
// Created and called by the training thread. EnqueueEnd blocks until the exchange is complete, or until the
// communicator's timeout.
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
  int64_t bucket_bytes = 1024 * 1024;  // A bucket closes once it holds this many bytes.
  std::string exchange = {};           // Describes the communicator, for logs and reports.
  // True if gradients may lie in the communicator's own memory. Must be equal on every rank. False if some
  // ranks copy gradients from a device (runtime/staged_strategy.h), because such a rank needs memory that its
  // device allocates.
  bool in_memory_of_communicator = true;
};

// `update` covers all variables of the arena. Without `update`, the sums stay in the gradient arena, and the
// caller updates the parameters. Arenas and slots are host memory. `layers` is a second communicator among
// the same ranks: worker_sums() uses it while `communicator` sums gradients. `layers` is null if no layer
// needs sums over the workers. InvalidArgument: bucket_bytes < 1.
absl::StatusOr<std::unique_ptr<Strategy>> CreateMirroredStrategy(
    std::unique_ptr<Communicator> communicator, absl::optional<ReplicaUpdate> update, MirroredOptions options,
    std::unique_ptr<Communicator> layers = nullptr);

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_MIRRORED_STRATEGY_H_
