#include <cmath>

#include "absl/strings/str_cat.h"
#include "deploy/predict/step_simulation.h"

namespace tethys {
namespace {

constexpr int kMaxProcesses = 1 << 20;

}  // namespace

absl::Status CheckCluster(const SimulatedCluster& cluster, int steps) {
  const auto bad = [](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("a simulation must have ", what));
  };
  if (cluster.workers.empty() || cluster.servers.empty()) return bad("at least one worker and one server");
  if (cluster.workers.size() > kMaxProcesses || cluster.servers.size() > kMaxProcesses) {
    return bad("at most 1,048,576 workers and as many servers");
  }
  if (steps < 2 || cluster.chunks > 4096) {
    return bad("two steps or more, and at most 4096 chunks");
  }
  const auto number = [](double value) { return std::isfinite(value) && value >= 0; };
  const auto hosts = static_cast<int>(cluster.hosts.size());
  bool good = number(cluster.delay) && number(cluster.cpu_per_byte) && number(cluster.cpu_per_message) &&
              number(cluster.loop_per_byte) && number(cluster.overhead);
  for (const auto& computer : cluster.computers) {
    good = good && !computer.capacity.empty();
    for (const double capacity : computer.capacity) good = good && number(capacity) && capacity > 0;
  }
  for (const auto& host : cluster.hosts) {
    good = good && number(host.rate) && host.computer >= 0 &&
           host.computer < static_cast<int>(cluster.computers.size());
  }
  for (const auto& worker : cluster.workers) {
    good = good && worker.host >= 0 && worker.host < hosts && number(worker.compute);
  }
  for (const auto& server : cluster.servers) {
    good = good && server.host >= 0 && server.host < hosts && number(server.bytes) && number(server.messages);
  }
  for (const double ratio : cluster.compute_ratio) good = good && number(ratio);
  return good ? absl::OkStatus()
              : bad("hosts within range, and times, rates and bytes that are finite and not negative");
}

}  // namespace tethys
