// A simulation of training with parameter servers, for what has no closed form: asynchronous and
// stale-synchronous jobs, slow hosts, mixed kinds, thousands of workers. Pure, seeded; any thread.
//
// Each simulated server asks the rules that a real one asks (runtime/consistency/rule.h): which pushes are
// due, in which updates, and whose answers wait. A chunk of a push in lock step counts as a push of its own.
//
// Processors and links are shared resources: what is under way on one gets equal parts of its rate (for a
// processor its capacity, which depends on how many ranks run). A server's loop is a queue. A push or an
// answer is work for both links and both computers at once, and is done when the last of these parts is. So
// two resources overlap perfectly here, as in a norm (exchange_model.h) with a large p.
#ifndef TETHYS_DEPLOY_PREDICT_STEP_SIMULATION_H_
#define TETHYS_DEPLOY_PREDICT_STEP_SIMULATION_H_

#include <cstdint>
#include <vector>

#include "proto/job.pb.h"
#include "runtime/base/status.h"

namespace tethys {

struct SimulatedCluster {
  // capacity[k - 1]: the throughput of k at once over that of one. Beyond its end the last value holds.
  struct Computer {
    std::vector<double> capacity = {1};
  };
  struct Host {
    int computer = 0;
    double rate = 0;  // Bytes a second in each direction; 0: no limit.
  };
  struct Worker {
    int host = 0;
    double compute = 0;  // Seconds of a step alone on its computer.
  };
  struct Server {
    int host = 0;
    double bytes = 0;     // The size of a push, and that of an answer.
    double messages = 1;  // The messages of a push.
  };
  std::vector<Computer> computers;
  std::vector<Host> hosts;
  std::vector<Worker> workers;
  std::vector<Server> servers;

  proto::ParameterServer parameter_server;  // Gives the consistency.
  bool pulls_before_step = false;           // Asynchronous jobs: parameters do not come with the answer.
  int chunks = 1;                           // The parts of a bulk-synchronous push, each answered by itself.
  double delay = 0;                         // One way, between two hosts.
  double cpu_per_byte = 0;
  double cpu_per_message = 0;
  double loop_per_byte = 0;
  double overhead = 0;  // Seconds of a worker's step beside computing and exchange.
  std::vector<double>
      compute_ratio;  // Quantiles of a step's computing time over `compute`; empty: all are 1.
  uint64_t seed = 0;
};

struct SimulationResult {
  double step = 0;       // Seconds of an update (asynchronous) or of a global step, in the steady state.
  double staleness = 0;  // Mean per server, in updates.
  double worst_staleness = 0;            // Mean of the staler server.
  int64_t most_staleness = 0;            // The highest staleness of one push.
  std::vector<double> worker_staleness;  // Mean over a worker's pushes.
  std::vector<double> worker_steps;      // Steps a second of each worker.
  int64_t events = 0;
};

// InvalidArgument: a number is negative, not finite or out of range, or there are no workers or no servers.
absl::Status CheckCluster(const SimulatedCluster& cluster, int steps);

// Every worker makes `steps` steps; the first tenth is not measured. Fails as CheckCluster, and with
// ResourceExhausted if there are more than 2^31 events.
absl::StatusOr<SimulationResult> Simulate(const SimulatedCluster& cluster, int steps);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PREDICT_STEP_SIMULATION_H_
