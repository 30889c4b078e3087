// The one place that chooses a strategy: everything else sees the seam (runtime/strategy.h).
#ifndef TETHYS_WORKERS_STRATEGY_FACTORY_H_
#define TETHYS_WORKERS_STRATEGY_FACTORY_H_

#include <memory>

#include "collectives/ring_communicator.h"
#include "proto/chief.pb.h"
#include "runtime/cluster/task_options.h"
#include "runtime/strategy.h"
#include "workers/replica.h"

namespace tethys {

// The strategy of the job in `setup`, for the worker of `task` and to be attached to `replica`. Mirrored:
// blocks until all workers are connected through their listeners. All that is borrowed outlives the strategy,
// and so does what `peers_compute` uses.
absl::StatusOr<std::unique_ptr<Strategy>> CreateStrategy(const TaskOptions& task, const proto::Setup& setup,
                                                         Replica& replica, RingListener& listener,
                                                         const Clock& clock,
                                                         PeersCompute peers_compute = nullptr);

}  // namespace tethys

#endif  // TETHYS_WORKERS_STRATEGY_FACTORY_H_
