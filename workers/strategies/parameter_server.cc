// The strategy of workers that train with parameter servers, under every consistency.
#include <utility>

#include "ps/parameter_server_strategy.h"
#include "runtime/shape/job_shape.h"
#include "workers/strategies/worker_parts.h"

namespace tethys {

absl::StatusOr<std::unique_ptr<Strategy>> MakeParameterServer(const WorkerParts& worker) {
  ParameterServerStrategyOptions options;
  options.plan = worker.plan;
  options.worker = worker.task.index;
  options.rank = TraitsOf(worker.job()).leases() ? worker.task.index : worker.place.rank;
  options.incarnation = worker.task.incarnation;
  options.generation = worker.group.generation();
  options.workers = worker.place.world;
  options.servers = AddressesOf(worker.group.member());
  options.token = worker.task.token;
  options.tls = worker.task.tls;
  options.clock = &worker.clock;
  options.start_deadline = worker.deadline;
  options.interruption = worker.handover.interruption;
  options.moves = worker.handover.moves;
  // peers_compute stays null if no server's answer depends on another worker.
  if (TraitsOf(worker.job()).waits_for != WaitsFor::kNone) options.peers_compute = worker.peers_compute;
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Strategy> servers,
                          CreateParameterServerStrategy(std::move(options)));
  return Staged(std::move(servers), absl::nullopt, worker);
}

}  // namespace tethys
