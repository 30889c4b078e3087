// Ways to use hosts that differ: by speed of computing, number of cores, memory, device or link. In lock step
// the slowest worker sets the pace of all, so it may be better to leave a slow host out or to let it run
// servers only, and a host behind a slow link may be a worker but a bad server. A worker's share of the batch
// is not among these ways, since all workers of a job have equal shares. Pure; any thread.
//
// Hosts are put into classes of equal hosts. If there is one class, the host file is used as it is.
// Otherwise, for each of speed and link, the classes are sorted and cut in two, and the worse part is left
// out, runs servers only, or runs workers only.
#ifndef TETHYS_DEPLOY_PREDICT_HOST_USES_H_
#define TETHYS_DEPLOY_PREDICT_HOST_USES_H_

#include <string>
#include <vector>

#include "proto/calibration.pb.h"
#include "runtime/base/status.h"
#include "runtime/cluster/host_file.h"

namespace tethys {

struct HostUse {
  std::string text;          // "without slave3", "slave3 runs only servers"; empty: the host file as it is.
  std::vector<int> workers;  // The hosts that may run workers, by preference.
  std::vector<int> servers;  // The hosts that may run servers, by preference.
};

// The class of each host, from 0; equal hosts have the same class. A host that the calibration does not list
// is put into a class by the measurements of its kind.
std::vector<int> HostClasses(const std::vector<HostEntry>& hosts, const proto::Calibration& calibration);

// Returns at most kMostHostUses ways; the first is the host file as it is.
inline constexpr int kMostHostUses = 10;
std::vector<HostUse> UsesOfHosts(const std::vector<HostEntry>& hosts, const proto::Calibration& calibration);

// The host file with which exactly `workers` workers and `servers` servers run on the hosts of a use: lines
// with role= and slots=. The chief stays on the host on which `hosts` places it. FailedPrecondition:
// the hosts have too few slots, or no lines of a host file express these numbers.
absl::StatusOr<std::vector<HostEntry>> HostsFor(const std::vector<HostEntry>& hosts, const HostUse& use,
                                                int workers, int servers);

// The text of a host file that ParseHostFile (runtime/cluster/host_file.h) reads back, a line for each host.
std::string HostFileText(const std::vector<HostEntry>& hosts);

// The number of workers and servers of each class of hosts. The result is equal for uses that differ only by
// exchanging equal hosts. Hosts are indices into `classes`.
std::vector<std::vector<int>> WorkOfClasses(const std::vector<int>& classes, const std::vector<int>& workers,
                                            const std::vector<int>& servers);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PREDICT_HOST_USES_H_
