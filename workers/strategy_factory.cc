#include "workers/strategy_factory.h"

#include <utility>

#include "workers/strategies/worker_parts.h"

namespace tethys {

// The table of strategies: for each member of Strategy.kind, a function, which a file in workers/strategies/
// defines, and a case in Make.
absl::StatusOr<std::unique_ptr<Strategy>> MakeLocal(const WorkerParts& worker);
absl::StatusOr<std::unique_ptr<Strategy>> MakeMirrored(const WorkerParts& worker);
absl::StatusOr<std::unique_ptr<Strategy>> MakeParameterServer(const WorkerParts& worker);

namespace {

absl::StatusOr<std::unique_ptr<Strategy>> Make(const WorkerParts& worker) {
  switch (worker.job().strategy().kind_case()) {
    case proto::Strategy::kMirrored:
      return MakeMirrored(worker);
    case proto::Strategy::kParameterServer:
      return MakeParameterServer(worker);
    case proto::Strategy::kLocal:
    case proto::Strategy::KIND_NOT_SET:
      break;
  }
  return MakeLocal(worker);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> CreateStrategy(const TaskOptions& task, const proto::JobPlan& plan,
                                                         const proto::Group& group, Replica& replica,
                                                         RingListener& listener, const Clock& clock,
                                                         Nanoseconds deadline, PeersCompute peers_compute,
                                                         GroupHandover handover) {
  return Make({.task = task,
               .plan = plan,
               .group = group,
               .place = PlaceIn(group, task.index),
               .model = replica.model(),
               .device = replica.device(),
               .stream = replica.stream(),
               .listener = listener,
               .clock = clock,
               .deadline = deadline,
               .peers_compute = std::move(peers_compute),
               .handover = std::move(handover)});
}

}  // namespace tethys
