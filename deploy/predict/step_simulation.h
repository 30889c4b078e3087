// A simulation of training with parameter servers, for jobs that have no closed form: asynchronous and
// stale-synchronous jobs, slow hosts, hosts of different kinds, thousands of workers. Pure, seeded; any
// thread.
//
// Each simulated server uses the same rules as a real server (runtime/consistency/rule.h). The rules say
// which pushes are due, which pushes one update adds, and which answers wait. A chunk of a push in lock step
// counts as a push of its own.
//
// Processors and links are shared resources: all work on a resource gets equal parts of its rate (the rate of
// a processor depends on how many ranks run). A server's loop is a queue. A push or an answer is work for
// both links and both computers at once, and is done when the last of these parts is done. So two resources
// overlap perfectly here, as in a norm (exchange_model.h) with a large p.
#ifndef TETHYS_DEPLOY_PREDICT_STEP_SIMULATION_H_
#define TETHYS_DEPLOY_PREDICT_STEP_SIMULATION_H_

#include <cstdint>
#include <vector>

#include "proto/job.pb.h"
#include "runtime/base/status.h"

namespace tethys {

struct SimulatedCluster {
  // capacity[k - 1] is the throughput of k processes at once, divided by the throughput of one process. The
  // last value applies to larger numbers, too.
  struct Computer {
    std::vector<double> capacity = {1};
  };
  struct Host {
    int computer = 0;
    double rate = 0;  // Bytes a second in each direction; 0: no limit.
  };
  struct Worker {
    int host = 0;
    double compute = 0;  // Seconds of a step of this worker while no other process runs on its computer.
  };
  struct Server {
    int host = 0;
    double bytes = 0;     // The size of a push; an answer has the same size.
    double messages = 1;  // The number of messages of a push.
  };
  std::vector<Computer> computers;
  std::vector<Host> hosts;
  std::vector<Worker> workers;
  std::vector<Server> servers;

  // The configuration of the parameter servers, which says their consistency.
  proto::ParameterServer parameter_server;
  // True if parameters come with a pull before the step, not with the answer to a push; for asynchronous jobs
  // only.
  bool pulls_before_step = false;
  int chunks = 1;    // The number of parts of a bulk-synchronous push; each part has an answer of its own.
  double delay = 0;  // The latency between two hosts, in seconds.
  double cpu_per_byte = 0;
  double cpu_per_message = 0;
  double loop_per_byte = 0;
  double overhead = 0;  // Seconds of a worker's step outside computing and exchange.
  // Quantiles of a step's computing time divided by `compute`; empty: all steps take `compute`.
  std::vector<double> compute_ratio;
  uint64_t seed = 0;
};

struct SimulationResult {
  double step = 0;       // Seconds of an update (asynchronous) or of a global step, in the steady state.
  double staleness = 0;  // Mean staleness over all servers, in updates.
  double worst_staleness = 0;            // Mean staleness at the server where it is highest.
  int64_t most_staleness = 0;            // The highest staleness of one push.
  std::vector<double> worker_staleness;  // Mean staleness of each worker's pushes.
  std::vector<double> worker_steps;      // Steps per second of each worker.
  int64_t events = 0;
};

// InvalidArgument: a number is negative, not finite or out of range, or there are no workers or no servers.
absl::Status CheckCluster(const SimulatedCluster& cluster, int steps);

// Every worker makes `steps` steps; the first tenth is not measured. Fails as CheckCluster, and with
// ResourceExhausted if there are more than 2^31 events.
absl::StatusOr<SimulationResult> Simulate(const SimulatedCluster& cluster, int steps);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PREDICT_STEP_SIMULATION_H_
