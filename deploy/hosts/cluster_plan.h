// A job laid over the machines of a host file: what `tethys plan --hostfile` prints and the launcher carries
// out. Pure but for reading the file.
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
  // What each worker computes on; empty where no host says, and the job decides.
  std::vector<proto::Device::Kind> worker_devices;

  // Hosts that run a process of the job, ascending.
  std::vector<int> UsedHosts() const;
  // Of the hosts used; 0 when one of them has no price.
  double PricePerHour() const;
};

// Errors of ReadHostFile and AssignRoles, the latter with the file's name. InvalidArgument: a worker would be
// on a host with device=cpu, but the job asks for a precision that only GPUs have.
absl::StatusOr<ClusterPlan> PlanCluster(const std::string& host_file, const proto::Job& job);

// Of each worker, as `tethys chief --worker_devices` takes it: "cuda,cpu"; and back, for that many workers.
std::string WorkerDevicesText(const std::vector<proto::Device::Kind>& devices);
absl::StatusOr<std::vector<proto::Device::Kind>> ParseWorkerDevices(absl::string_view text, int workers);

// A line for each host: what it runs, its slots, price and, where any host says it, device.
std::string ClusterTable(const ClusterPlan& plan);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_HOSTS_CLUSTER_PLAN_H_
