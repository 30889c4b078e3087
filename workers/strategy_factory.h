// The only place that chooses a strategy. All other code uses the Strategy interface (runtime/strategy.h).
#ifndef TETHYS_WORKERS_STRATEGY_FACTORY_H_
#define TETHYS_WORKERS_STRATEGY_FACTORY_H_

#include <memory>

#include "collectives/ring_communicator.h"
#include "proto/chief.pb.h"
#include "runtime/cluster/task_options.h"
#include "runtime/strategy.h"
#include "workers/replica.h"
#include "workers/strategies/worker_parts.h"

namespace tethys {

// Creates the strategy of the planned job for the worker `task`, a member of `group`. The caller must attach
// the strategy to `replica`. In mirrored training, blocks until all workers of the group are connected
// through their listeners, but not beyond `deadline`, a time of `clock`. With servers, Replica::Attach waits
// for the servers' first answers, also not beyond `deadline`. `replica`, `listener`, `clock` and everything
// that `peers_compute` uses must outlive the strategy. `handover` says how the group replaces an earlier
// group of the worker.
absl::StatusOr<std::unique_ptr<Strategy>> CreateStrategy(const TaskOptions& task, const proto::JobPlan& plan,
                                                         const proto::Group& group, Replica& replica,
                                                         RingListener& listener, const Clock& clock,
                                                         Nanoseconds deadline,
                                                         PeersCompute peers_compute = nullptr,
                                                         GroupHandover handover = {});

}  // namespace tethys

#endif  // TETHYS_WORKERS_STRATEGY_FACTORY_H_
