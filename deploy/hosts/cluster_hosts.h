// Prepares the machines of a job before it starts: finds the address of each, checks that it can run this
// build, and installs the build if it is missing. Called by job_places.h. Handles all hosts at once; blocks,
// with deadlines.
//
// All files of Tethys on another machine are in ~/.cache/tethys: BUILD_ID/ (the unpacked bundle) and, on a
// chief's machine, runs/. Installing a build on a host removes builds that were not used there for a month; a
// process touches the build that it runs from (build_in_use.h). Hosts need sh, mkdir, rm, mv, tar and gzip;
// uname, date, df, touch and find are used if present.
#ifndef TETHYS_DEPLOY_HOSTS_CLUSTER_HOSTS_H_
#define TETHYS_DEPLOY_HOSTS_CLUSTER_HOSTS_H_

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "deploy/process/place.h"
#include "deploy/process/ssh.h"
#include "runtime/base/status.h"

namespace tethys {

struct ClusterHost {
  SshTarget target = {};
  std::string address = {};  // From the host file; empty: the address ssh connects to.
};

struct ClusterOptions {
  std::string ssh_config = {};                        // See SshCall.
  std::string bundle = {};                            // See PayloadOptions.
  std::string scratch = {};                           // See RunEverywhere.
  std::function<void(const std::string&)> note = {};  // Takes lines for the user.
};

// The numeric addresses of this machine.
std::set<std::string> OwnAddresses();

// The address at which a host's processes are reached: the one in the host file or, if that has none, the one
// that ssh connects to. InvalidArgument: it is a loopback address, and the host is not the only one
// (`alone`). NotFound: the name has no address.
absl::StatusOr<std::string> FindAddress(const ClusterHost& host, bool alone, const ClusterOptions& options);

// Returns a place for each host, in the order of `hosts`. Processes are started directly on a host whose
// address is this machine's, and by ssh on other hosts. The error names every host that cannot be used, in
// the order of the file, with the reason.
absl::StatusOr<std::vector<Place>> PrepareHosts(const std::vector<ClusterHost>& hosts,
                                                const ClusterOptions& options);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_HOSTS_CLUSTER_HOSTS_H_
