// The checks of `tethys hosts check` on the machines of a host file: whether ssh connects, each machine's
// facts, its clock offset, and the network speed between each pair of machines. Blocks, with deadlines. All
// hosts are asked at once. Links are measured in rounds, and a machine takes part at most once in a round. No
// process is left running.
#ifndef TETHYS_DEPLOY_HOSTS_HOST_CHECK_H_
#define TETHYS_DEPLOY_HOSTS_HOST_CHECK_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "deploy/hosts/cluster_hosts.h"
#include "deploy/hosts/host_facts.h"
#include "deploy/hosts/link_meter.h"
#include "runtime/cluster/host_file.h"

namespace tethys {

struct CheckedHost {
  std::string host = {};     // The host's name in the host file.
  std::string address = {};  // Empty: the host has no address that other machines can reach.
  bool here = false;         // The host is this machine, which is asked without ssh.
  std::string trial = {};    // The command of SshTrial; shown if the host is not reached.
  absl::Status reached = {};
  HostFacts facts = {};
  std::optional<ClockOffset> clock = {};
  bool lacks_build = false;  // The host was reached, but does not have this build.
  absl::Status links = {};   // If not OK, why the host's links were not measured.
};

struct CheckedLink {
  int from = 0;  // The index in ClusterCheck::hosts of the host that measured the link.
  int to = 0;
  absl::StatusOr<LinkSpeed> speed;
};

struct ClusterCheck {
  std::string architecture = {};  // The architecture of this machine.
  std::vector<CheckedHost> hosts = {};
  std::vector<CheckedLink> links = {};
};

// Enough rounds for all pairs of 32 machines. If there are more machines, each machine is measured with at
// most 32 other machines.
inline constexpr int kMostLinkRounds = 32;

struct LinkRounds {
  int most = kMostLinkRounds;  // Each machine is measured with at most this many other machines.
  // Measures one link at a time, for machines that share processors: several links at a time would need more
  // CPU time than the processors have.
  bool one_at_once = false;
};

struct CheckRequest {
  std::vector<HostEntry> entries = {};
  std::string hostfile = {};  // The path of the host file, for messages.
  bool install = false;       // Installs this build where it is missing, so that all links are measured.
  LinkRounds rounds = {};
};

// Makes the checks, and installs the build if requested. `options.bundle` and `options.note` are used for
// installing only.
ClusterCheck CheckCluster(const CheckRequest& request, const ClusterOptions& options);

// Returns every pair of the numbers 0 to count - 1 once, in rounds: in a round no number occurs twice. If
// there are more than `most` rounds, returns only the first `most` rounds.
std::vector<std::vector<std::pair<int, int>>> RoundsOfPairs(int count, int most);

// Tables for the user, followed by each problem and its remedy.
std::string ClusterCheckText(const ClusterCheck& check);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_HOSTS_HOST_CHECK_H_
