// The assignment of a job's processes to the machines of a host file. `tethys plan --hostfile` prints it and
// the launcher carries it out. Pure except for reading the file.
#ifndef TETHYS_DEPLOY_HOSTS_CLUSTER_PLAN_H_
#define TETHYS_DEPLOY_HOSTS_CLUSTER_PLAN_H_

#include <string>
#include <vector>

#include "proto/job.pb.h"
#include "runtime/cluster/role_assignment.h"

namespace tethys {

struct ClusterPlan {
  std::vector<HostEntry> hosts;
  RoleAssignment roles;
  // The device of each worker; empty if no host names a device, so that the job's device applies.
  std::vector<proto::Device::Kind> worker_devices;

  // The indices of the hosts that run a process of the job, ascending.
  std::vector<int> UsedHosts() const;
  // The sum of the prices of the used hosts; 0 if a used host has no price.
  double PricePerHour() const;
};

// Assigns the job's processes to the hosts of the file. Errors: those of ReadHostFile and AssignRoles;
// InvalidArgument: a worker would be on a host with device=cpu, but the job requests a precision that only
// GPUs have.
absl::StatusOr<ClusterPlan> PlanCluster(const std::string& host_file, const proto::Job& job);
// Like the function above, for hosts that are given. Errors begin with `origin`, such as the path of the host
// file.
absl::StatusOr<ClusterPlan> PlanCluster(std::vector<HostEntry> hosts, const std::string& origin,
                                        const proto::Job& job);

// Converts the workers' devices to the text of `tethys chief --worker_devices`, "cuda,cpu", and back.
// InvalidArgument: the text does not name `workers` devices.
std::string WorkerDevicesText(const std::vector<proto::Device::Kind>& devices);
absl::StatusOr<std::vector<proto::Device::Kind>> ParseWorkerDevices(absl::string_view text, int workers);

// A line for each host: its processes, slots, price and, if any host names a device, its device.
std::string ClusterTable(const ClusterPlan& plan);
// A line which says that the price of the chief's host counts, too. Empty unless the chief has a host of its
// own, the hosts have prices, and the line of the chief's host in the host file names no roles. ClusterTable
// ends with this line.
std::string ChiefAloneText(const ClusterPlan& plan);
// A line that says how many hosts run no process, and why; empty if every host runs a process.
std::string IdleHostsText(const ClusterPlan& plan);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_HOSTS_CLUSTER_PLAN_H_
