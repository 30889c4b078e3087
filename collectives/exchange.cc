#include "collectives/exchange.h"

#include <algorithm>
#include <utility>

#include "collectives/hierarchical_communicator.h"
#include "collectives/shared_memory_communicator.h"
#include "runtime/base/logging.h"
#include "runtime/base/random.h"
#include "runtime/base/socket.h"

namespace tethys {
namespace {

std::string TopologyText(const std::vector<int>& hosts) {
  if (HostCount(hosts) == 1) return absl::StrCat("shared memory among ", hosts.size(), " workers");
  return absl::StrCat("shared memory inside ", HostCount(hosts), " hosts and TCP between them, ",
                      hosts.size(), " workers");
}

}  // namespace

absl::StatusOr<std::vector<int>> FindHosts(Communicator& all, const std::string& own_address) {
  const absl::StatusOr<std::string> boot = ReadFile("/proc/sys/kernel/random/boot_id", 4096);
  // A rank whose host has no boot id counts as alone on its host.
  const std::string own = absl::StrCat(boot.ok() ? *boot : absl::StrCat("rank ", all.rank()));
  TETHYS_ASSIGN_OR_RETURN(const HostPort bound, ParseHostPort(own_address));
  const std::string place = absl::StrCat(own, " ", bound.host);
  TETHYS_ASSIGN_OR_RETURN(const std::vector<uint64_t> keys,
                          AllGather(all, Fnv1a(place.data(), place.size())));

  std::vector<uint64_t> known;
  std::vector<int> hosts;
  for (const uint64_t key : keys) {
    const auto it = std::find(known.begin(), known.end(), key);
    hosts.push_back(static_cast<int>(it - known.begin()));
    if (it == known.end()) known.push_back(key);
  }
  return hosts;
}

absl::StatusOr<Exchange> CreateExchange(RingListener& listener, const RingOptions& ring,
                                        proto::Tuning::Transport transport) {
  const bool wanted = transport == proto::Tuning::SHARED_MEMORY;
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> all, CreateRingCommunicator(listener, ring));
  const auto by_tcp = [&all](absl::string_view why) {
    const std::string among =
        all->world_size() == 1 ? "" : absl::StrCat(" among ", all->world_size(), " workers");
    std::string description = absl::StrCat("TCP", among, ": ", why);
    return Exchange{.communicator = std::move(all), .description = std::move(description)};
  };
  if (all->world_size() == 1) return by_tcp("one worker exchanges nothing");
  if (transport == proto::Tuning::TCP) return by_tcp("as the job says");

  TETHYS_ASSIGN_OR_RETURN(const std::vector<int> hosts, FindHosts(*all, ring.members[ring.rank].address));
  if (HostCount(hosts) == all->world_size()) {
    if (!wanted) return by_tcp("no two workers share a host");
    return absl::FailedPreconditionError(
        "tuning.transport is SHARED_MEMORY, but no two workers share a host; set it to AUTOMATIC, or "
        "put several workers on one host");
  }
  absl::StatusOr<std::unique_ptr<Communicator>> by_topology =
      CreateCommunicatorOfHosts(all, hosts,
                                {.member_names = ring.MemberNames(),
                                 .group = ring.group,
                                 .generation = ring.generation,
                                 .step_timeout = ring.step_timeout,
                                 .peers_compute = ring.peers_compute,
                                 .clock = ring.clock,
                                 .interruption = ring.interruption});
  if (by_topology.status().code() == absl::StatusCode::kFailedPrecondition && !wanted) {
    return by_tcp(by_topology.status().message());
  }
  if (!by_topology.ok()) return by_topology.status();
  return Exchange{.communicator = *std::move(by_topology), .description = TopologyText(hosts)};
}

}  // namespace tethys
