// The one place that picks a strategy: everything else sees the seam (runtime/strategy.h).
#ifndef TETHYS_WORKERS_STRATEGY_FACTORY_H_
#define TETHYS_WORKERS_STRATEGY_FACTORY_H_

#include <memory>

#include "collectives/ring_communicator.h"
#include "proto/chief.pb.h"
#include "runtime/cluster/task_options.h"
#include "runtime/device/device.h"
#include "runtime/nn/model.h"
#include "runtime/strategy.h"

namespace tethys {

// Of the job in `setup`, for the worker of `task`. Mirrored: blocks until all workers are connected through
// their listeners. What is borrowed outlives the strategy, and so does what `peers_compute` uses.
absl::StatusOr<std::unique_ptr<Strategy>> CreateStrategy(const TaskOptions& task, const proto::Setup& setup,
                                                         const Model& model, Device& device, Stream& stream,
                                                         RingListener& listener, const Clock& clock,
                                                         PeersCompute peers_compute = nullptr);

}  // namespace tethys

#endif  // TETHYS_WORKERS_STRATEGY_FACTORY_H_
