// What `tethys hosts check` finds out about the machines of a host file: whether ssh gets in, what each says
// of itself, how far its clock is off, and how fast each pair is connected. Blocks; all hosts are asked at
// once, under deadlines, and links are measured in rounds in which no machine takes part twice. Nothing is
// left running.
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
  std::string host = {};     // As the file names it.
  std::string address = {};  // Empty: none that other machines reach.
  bool here = false;         // It is this machine; asked without ssh.
  std::string trial = {};    // As SshTrial; for a host that is not reached.
  absl::Status reached = {};
  HostFacts facts = {};
  std::optional<ClockOffset> clock = {};
  absl::Status links = {};  // Not OK: they were not measured, for this reason.
};

struct CheckedLink {
  int from = 0;  // Hosts by index.
  int to = 0;
  absl::StatusOr<LinkSpeed> speed;
};

struct ClusterCheck {
  std::string architecture = {};  // Of this machine.
  std::vector<CheckedHost> hosts = {};
  std::vector<CheckedLink> links = {};
};

// `options.bundle` is not used: nothing is installed anywhere.
ClusterCheck CheckCluster(const std::vector<HostEntry>& entries, const ClusterOptions& options);

// Every pair of 0 .. count-1 once, in rounds that name nobody twice; no more than `most` rounds.
std::vector<std::vector<std::pair<int, int>>> RoundsOfPairs(int count, int most);

// The tables for people, and below them what is wrong and what to do.
std::string ClusterCheckText(const ClusterCheck& check);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_HOSTS_HOST_CHECK_H_
