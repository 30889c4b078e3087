// Which machine runs which process of a job, for predictions. Pure; any thread.
#ifndef TETHYS_DEPLOY_PREDICT_MACHINES_H_
#define TETHYS_DEPLOY_PREDICT_MACHINES_H_

#include <string>
#include <vector>

#include "deploy/hosts/cluster_plan.h"
#include "proto/plan.pb.h"

namespace tethys {

// The host's name in calibrations of a job without a host file.
inline constexpr char kThisMachine[] = "localhost";

struct JobMachines {
  std::vector<std::string> hosts;  // Names of hosts, as in the host file.
  std::vector<std::string> kinds;  // The kind of each host; an empty string if the host file names none.
  std::vector<int> workers;        // The index of each worker's host.
  std::vector<int> servers;        // The index of each server's host.
  int chief = 0;
  // The price of all used hosts together, if the job names no price; 0: not known.
  double price_per_hour = 0;
  bool on_loopback = false;  // True if all processes run on this machine and listen on 127.0.0.1.
};

// The number of hosts on which workers and servers run.
int MachinesInUse(const JobMachines& machines);

// The machines of a job without a host file: this machine runs all processes.
JobMachines MachinesHere(const proto::JobPlan& plan);
// The machines of `hosts`, without processes on them.
JobMachines MachinesOf(const std::vector<HostEntry>& hosts);
// The hosts, with the processes that a host file places on them.
JobMachines MachinesOf(const ClusterPlan& cluster);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PREDICT_MACHINES_H_
