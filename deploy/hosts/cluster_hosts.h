// Prepares the machines of a job before it starts: finds the address of each machine, checks that the machine
// can run this build, and installs the build if it is missing. Called by job_places.h. Handles all hosts at
// once; blocks, with deadlines.
//
// All files of Tethys on another machine are in ~/.cache/tethys, or in the folder that the host file names:
// BUILD_ID/ (the unpacked bundle) and, on a chief's machine, runs/. Installing a build on a host removes
// builds that were not used on this host for a month; a process touches the build that it runs from
// (build_in_use.h). Hosts need sh, mkdir, rm, mv, tar and gzip; uname, date, df, touch and find are used if
// present.
#ifndef TETHYS_DEPLOY_HOSTS_CLUSTER_HOSTS_H_
#define TETHYS_DEPLOY_HOSTS_CLUSTER_HOSTS_H_

#include <functional>
#include <string>
#include <vector>

#include "deploy/hosts/host_addresses.h"
#include "deploy/hosts/host_facts.h"
#include "deploy/process/place.h"
#include "runtime/base/status.h"

namespace tethys {

struct ClusterOptions {
  std::string ssh_config = {};                        // The file with ssh's configuration (SshCall).
  std::string bundle = {};                            // The bundle to install (PayloadOptions).
  std::string scratch = {};                           // A folder for temporary files (RunEverywhere).
  std::function<void(const std::string&)> note = {};  // Receives lines for the user.
};

// A host that lacks this build.
struct LackingHost {
  ClusterHost host;
  std::vector<std::string> ssh;  // The ssh command of the host (SshCall).
  HostFacts facts;
};
// Copies this build to each host. Returns a status for each host, in the order of `hosts`; an error if there
// is no bundle to copy (payload.h).
absl::StatusOr<std::vector<absl::Status>> InstallBuild(const std::vector<LackingHost>& hosts,
                                                       const ClusterOptions& options);

// Returns a Place (how to start processes on the host and reach them) for each host, in the order of `hosts`.
// Processes are started directly on a host whose address is this machine's, and by ssh on other hosts. The
// error names every host that cannot be used, in the order of the file, with the reason. Notes name hosts
// that are the same machine, and hosts that are reached by ssh at an address that is not their own.
absl::StatusOr<std::vector<Place>> PrepareHosts(const std::vector<ClusterHost>& hosts,
                                                const ClusterOptions& options);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_HOSTS_CLUSTER_HOSTS_H_
