// The strategy of a job with one worker, which exchanges nothing.
#include "runtime/local_strategy.h"
#include "workers/strategies/worker_parts.h"

namespace tethys {

absl::StatusOr<std::unique_ptr<Strategy>> MakeLocal(const WorkerParts& worker) {
  TETHYS_ASSIGN_OR_RETURN(ReplicaUpdate update, UpdateOf(worker));
  return CreateLocalStrategy(std::move(update), worker.clock, worker.step_timeout());
}

}  // namespace tethys
