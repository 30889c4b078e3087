#include "deploy/predict/machines.h"

#include <set>

#include "runtime/job/job.h"
#include "runtime/shape/job_shape.h"

namespace tethys {

int MachinesInUse(const JobMachines& machines) {
  std::set<int> used(machines.workers.begin(), machines.workers.end());
  used.insert(machines.servers.begin(), machines.servers.end());
  return static_cast<int>(used.size());
}

JobMachines MachinesHere(const proto::JobPlan& plan) {
  JobMachines machines;
  machines.hosts = {kThisMachine};
  machines.kinds = {""};
  machines.workers.assign(plan.job().workers(), 0);
  machines.servers.assign(ShapeOf(plan.job()).servers, 0);
  machines.on_loopback = true;
  return machines;
}

JobMachines MachinesOf(const std::vector<HostEntry>& hosts) {
  JobMachines machines;
  for (const HostEntry& host : hosts) {
    machines.hosts.push_back(host.host);
    machines.kinds.push_back(host.kind);
  }
  return machines;
}

JobMachines MachinesOf(const ClusterPlan& cluster) {
  JobMachines machines = MachinesOf(cluster.hosts);
  machines.workers = cluster.roles.workers;
  machines.servers = cluster.roles.servers;
  machines.chief = cluster.roles.chief;
  machines.price_per_hour = cluster.PricePerHour();
  return machines;
}

}  // namespace tethys
