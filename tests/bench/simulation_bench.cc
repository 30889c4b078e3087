// Measures how long a prediction by simulation takes (deploy/predict/step_simulation.h). Prints seconds and
// events for 1,000 asynchronous workers and 8 servers, each on a host of its own, and 100 steps a worker, and
// then the same for 1,000 stale-synchronous workers. Limit: 10 s for each.
#include <chrono>
#include <cstdio>

#include "deploy/predict/step_simulation.h"

namespace {

using tethys::SimulatedCluster;

constexpr int kWorkers = 1000;
constexpr int kServers = 8;
constexpr int kSteps = 100;
constexpr double kLimit = 10;  // Limit in seconds.

SimulatedCluster LargeCluster(const tethys::proto::ParameterServer& parameter_server) {
  SimulatedCluster cluster;
  for (int i = 0; i < kWorkers + kServers; ++i) {
    cluster.computers.emplace_back();
    cluster.hosts.push_back({.computer = i, .rate = 1.25e9});
    if (i < kWorkers) {
      cluster.workers.push_back({.host = i, .compute = 0.1});
    } else {
      cluster.servers.push_back({.host = i, .bytes = 1e6, .messages = 3});
    }
  }
  cluster.parameter_server = parameter_server;
  cluster.delay = 5e-5;
  cluster.cpu_per_byte = 2e-9;
  cluster.loop_per_byte = 5e-10;
  for (int i = 1; i < 20; ++i) cluster.compute_ratio.push_back(0.9 + 0.01 * i);
  return cluster;
}

bool Measure(const char* name, const tethys::proto::ParameterServer& parameter_server) {
  const SimulatedCluster cluster = LargeCluster(parameter_server);
  const auto begin = std::chrono::steady_clock::now();
  const absl::StatusOr<tethys::SimulationResult> result = Simulate(cluster, kSteps);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", std::string(result.status().message()).c_str());
    return false;
  }
  std::printf("%s: %d workers, %d servers, %d steps: %.2f s, %lld events; mean staleness %.1f, limit %g s\n",
              name, kWorkers, kServers, kSteps, seconds, static_cast<long long>(result->events),
              result->staleness, kLimit);
  return seconds <= kLimit;
}

}  // namespace

int main() {
  tethys::proto::ParameterServer config;
  config.mutable_asynchronous();
  const bool asynchronous = Measure("asynchronous", config);
  config.mutable_stale_synchronous()->set_bound(3);
  config.mutable_stale_synchronous()->set_gradient_scale(tethys::proto::Asynchronous::GLOBAL_MEAN);
  const bool stale = Measure("stale-synchronous", config);
  return asynchronous && stale ? 0 : 1;
}
