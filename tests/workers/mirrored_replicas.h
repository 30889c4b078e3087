// Trains replicas as threads that exchange their gradients through a ring.
#ifndef TETHYS_TESTS_WORKERS_MIRRORED_REPLICAS_H_
#define TETHYS_TESTS_WORKERS_MIRRORED_REPLICAS_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tests/collectives/ring_fixture.h"
#include "tests/workers/steps_by_hand.h"

namespace tethys {

using MakeStrategy = std::function<std::unique_ptr<Strategy>(TestReplica& replica,
                                                             std::unique_ptr<Communicator> communicator)>;

using TrainReplica = std::function<absl::Status(TestReplica& replica, std::unique_ptr<Strategy> strategy)>;

// Trains `world` replicas, each on a separate device; returns the parameters of each replica.
inline std::vector<std::vector<float>> TrainMirrored(int world,
                                                     const std::function<std::unique_ptr<Device>()>& device,
                                                     const MakeStrategy& strategy,
                                                     const TrainReplica& train = TrainByHand,
                                                     const Replica::Options& options = {}) {
  std::vector<std::vector<float>> parameters(world);
  ExpectAllOk(InRing(world, [&](std::unique_ptr<Communicator>& communicator) -> absl::Status {
    const int rank = communicator->rank();
    TestReplica replica(device(), rank, world, options);
    TETHYS_RETURN_IF_ERROR(train(replica, strategy(replica, std::move(communicator))));
    parameters[rank] = replica.Parameters();
    return absl::OkStatus();
  }));
  return parameters;
}

inline std::vector<std::vector<float>> MirroredOnTheCpu(int world, const TrainReplica& train = TrainByHand) {
  return TrainMirrored(
      world, [] { return CreateCpuDevice(1).value(); },
      [](TestReplica& replica, auto communicator) { return replica.MakeMirrored(std::move(communicator)); },
      train);
}

}  // namespace tethys

#endif  // TETHYS_TESTS_WORKERS_MIRRORED_REPLICAS_H_
