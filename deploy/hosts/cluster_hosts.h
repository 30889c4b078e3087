// The machines of a job before it starts: where each is reached, whether it can run this build, and the build
// brought to those that lack it. Called by job_places.h; blocks, under deadlines; all hosts at once.
//
// On a machine, everything of ours lies in ~/.cache/tethys: BUILD_ID/ (the bundle, unpacked) and, where a
// chief runs, runs/JOB_ID/. A build brought to a host removes those that nobody used there for a month;
// processes touch the one that they run out of (build_in_use.h). Hosts need sh, mkdir, rm, mv, tar and gzip;
// uname, date, df, touch and find do more where they are.
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

// Seconds. Certificates of a job are valid from an hour before it on.
constexpr double kClockTolerance = 5;

struct ClusterHost {
  SshTarget target = {};
  std::string address = {};  // As the host file gives it; empty: where ssh connects to.
};

struct ClusterOptions {
  std::string ssh_config = {};                        // Empty: the user's own.
  std::string bundle = {};                            // As in PayloadOptions.
  std::string scratch = {};                           // A directory for the words of ssh.
  std::function<void(const std::string&)> note = {};  // Takes lines for the user.
};

// The numeric addresses of this machine.
std::set<std::string> OwnAddresses();

// Where a host's processes are reached: by its own name, or where ssh connects to. InvalidArgument: on
// loopback, although it is not `alone`.
absl::StatusOr<std::string> FindAddress(const ClusterHost& host, bool alone, const ClusterOptions& options);

// A place for each host, in their order. A host with an address of this machine is started on directly,
// others by ssh. The error names every host that cannot be used, in the order of the file, and why.
absl::StatusOr<std::vector<Place>> PrepareHosts(const std::vector<ClusterHost>& hosts,
                                                const ClusterOptions& options);

// What a host says of itself.
struct HostProbe {
  std::string home = {};
  std::string architecture = {};  // Empty: it cannot tell.
  double free_kib = -1;           // -1: it cannot tell.
  double unix_seconds = -1;       // -1: it cannot tell.
  bool has_build = false;
};
// InvalidArgument: the host answered with something else, as a shell does whose start-up files write.
absl::StatusOr<HostProbe> ParseProbe(const std::string& output);

// Why this build cannot run there, if so.
absl::Status CheckArchitecture(const HostProbe& probe, const std::string& architecture);
// Why it cannot be brought there, if so; it takes up `needed_kib`.
absl::Status CheckSpace(const HostProbe& probe, double needed_kib);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_HOSTS_CLUSTER_HOSTS_H_
