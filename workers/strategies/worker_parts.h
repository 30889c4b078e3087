// The parts of a worker from which its strategy is made, and functions that several strategies share. Each
// file of this folder makes one strategy; the table that chooses among them is in
// workers/strategy_factory.cc. Used by the training thread.
#ifndef TETHYS_WORKERS_STRATEGIES_WORKER_PARTS_H_
#define TETHYS_WORKERS_STRATEGIES_WORKER_PARTS_H_

#include <algorithm>
#include <functional>
#include <memory>
#include <string>

#include "absl/types/optional.h"
#include "collectives/ring_communicator.h"
#include "proto/chief.pb.h"
#include "ps/server_moves.h"
#include "runtime/base/interruption.h"
#include "runtime/cluster/group_place.h"
#include "runtime/cluster/task_options.h"
#include "runtime/nn/model.h"
#include "runtime/replica_update.h"
#include "runtime/strategy.h"

namespace tethys {

// How a group of workers replaces an earlier one. The defaults are those of a group that is never replaced.
struct GroupHandover {
  // The optimizer's slots, which the update of the new group goes on using; null: the update has slots of its
  // own.
  std::shared_ptr<OptimizerSlots> slots = nullptr;
  // Ends the forming of the group and all exchange in it. Must outlive the strategy. Null: nothing ends them
  // early.
  Interruption* interruption = nullptr;
  // Workers on leases: tells the exchange of moved servers. Must outlive the strategy. Null: no server moves.
  ServerMoves* moves = nullptr;
  // Mirrored: called when the workers of the group are connected, before the strategy is made; its error is
  // returned. The function may make collective calls on `group`. Null: not called.
  std::function<absl::Status(Communicator& group)> connected = nullptr;
};

struct WorkerParts {
  const TaskOptions& task;
  const proto::JobPlan& plan;
  const proto::Group& group;  // The members with which the worker exchanges gradients.
  WorkerPlace place;          // The worker's rank in the group.
  const Model& model;
  Device& device;
  Stream& stream;
  RingListener& listener;  // The worker's communicators connect through this listener.
  const Clock& clock;
  // The time, by `clock`, until which the first connections must be made.
  Nanoseconds deadline = 0;
  PeersCompute peers_compute = nullptr;  // Null: it is not known whether other workers compute.
  GroupHandover handover = {};

  const proto::Job& job() const { return plan.job(); }
  Nanoseconds step_timeout() const { return FromSeconds(job().timeouts().step()); }
  // The time until the deadline, but at least half a second, so that a connection can be tried.
  Nanoseconds TimeLeft() const { return std::max<Nanoseconds>(kSecond / 2, deadline - clock.Now()); }
};

// The options of the ring in which the group's workers sum gradients, for CreateExchange
// (collectives/exchange.h). RingOptions::group is 1; rings for other purposes have other group numbers.
absl::StatusOr<RingOptions> RingOf(const WorkerParts& worker);

// The name of a worker of a group in RingOptions, and in errors of its communicators: "worker 2 on 10.0.0.3".
std::string MemberName(const proto::Member& member);

// The job's update of all trainable variables, on the worker's device.
absl::StatusOr<ReplicaUpdate> UpdateOf(const WorkerParts& worker);

// Wraps `inner` in a staged strategy (runtime/staged_strategy.h), unless the host can use the device's
// memory.
absl::StatusOr<std::unique_ptr<Strategy>> Staged(std::unique_ptr<Strategy> inner,
                                                 absl::optional<ReplicaUpdate> update,
                                                 const WorkerParts& worker);

}  // namespace tethys

#endif  // TETHYS_WORKERS_STRATEGIES_WORKER_PARTS_H_
