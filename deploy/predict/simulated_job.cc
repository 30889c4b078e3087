#include "deploy/predict/simulated_job.h"

#include <algorithm>

#include "runtime/shape/job_shape.h"

namespace tethys {

absl::StatusOr<SimulatedCluster> ClusterOf(const proto::JobPlan& plan, const JobMachines& machines,
                                           const JobComputers& computers, const StepNeeds& needs,
                                           const proto::Calibration& calibration) {
  SimulatedCluster cluster;
  const proto::ParameterServer& config = plan.job().strategy().parameter_server();
  cluster.parameter_server = config;
  cluster.pulls_before_step = PullsBeforeStep(config);
  for (const JobComputer& computer : computers.computers()) {
    SimulatedCluster::Computer& made = cluster.computers.emplace_back();
    made.capacity.clear();
    for (int k = 1; k <= std::max(computer.processes(), 2); ++k) {
      made.capacity.push_back(std::max(1e-3, CapacityOf(*computer.calibration, k) / computer.slowness));
    }
  }
  const std::vector<int>& used = computers.used_hosts();
  std::vector<int> index(machines.hosts.size(), 0);
  TETHYS_ASSIGN_OR_RETURN(const std::vector<LinkOffer> links, computers.OwnLinks());
  for (size_t i = 0; i < used.size(); ++i) {
    index[used[i]] = static_cast<int>(cluster.hosts.size());
    cluster.hosts.push_back({.computer = computers.computer_of(used[i]), .rate = links[i].rate});
    cluster.delay = std::max(cluster.delay, links[i].delay);
  }
  for (const int host : machines.workers) {
    const JobComputer& computer = computers.computers()[computers.computer_of(host)];
    const proto::BatchTime time = computer.curve.At(static_cast<double>(plan.batch_per_worker()));
    const double of_samples =
        static_cast<double>(plan.batch_per_worker()) * CostOf(calibration, kLocal).sample_overhead();
    cluster.workers.push_back(
        {.host = index[host],
         // Computing is given as work on the fastest computer; a slower computer does less of it per second.
         .compute =
             (time.step() - std::min(time.update(), time.step() / 2)) / computer.slowness + of_samples});
  }
  for (size_t s = 0; s < machines.servers.size(); ++s) {
    const PushForecast& push = needs.pushes[s];
    if (push.bytes == 0) continue;  // A server without shards gets no pushes.
    cluster.servers.push_back({.host = index[machines.servers[s]],
                               .bytes = static_cast<double>(push.bytes),
                               .messages = static_cast<double>(push.messages)});
  }
  const proto::ExchangeCost cost = CostOf(calibration, kServers);
  cluster.cpu_per_byte = cost.cpu_per_byte();
  cluster.cpu_per_message = cost.cpu_per_message();
  cluster.loop_per_byte = cost.loop_per_byte();
  cluster.overhead = cost.step_overhead();
  for (const JobComputer& computer : computers.computers()) {
    if (computer.workers == 0 || computer.calibration->step_ratio().empty()) continue;
    const auto& ratio = computer.calibration->step_ratio();
    // The step times in JobComputer::curve are lower quartiles, but the ratios are relative to the median
    // step.
    const double base = StragglerQuantile(ratio, 1, 0.25);
    if (base > 0) {
      for (const double value : ratio) cluster.compute_ratio.push_back(value / base);
    }
    break;
  }
  return cluster;
}

}  // namespace tethys
