#include "collectives/exchange.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "collectives/hierarchical_communicator.h"
#include "collectives/shared_memory_communicator.h"
#include "runtime/base/logging.h"
#include "runtime/base/random.h"
#include "runtime/base/socket.h"

namespace tethys {
namespace {

// Of the leaders' ring, beside the ring of all of the same group.
constexpr uint32_t kLeadersGroup = 1 << 16;
constexpr int64_t kMaxMeasuredBytes = 1024 * 1024;

struct Measurement {
  const char* name;
  int64_t bytes;
  int calls;
};

// Microseconds of an all-reduce, the mean over all ranks; one call before is not counted.
absl::StatusOr<double> Measure(Communicator& communicator, const Measurement& what, const Clock& clock) {
  std::vector<float> data(what.bytes / static_cast<int64_t>(sizeof(float)), 0.0f);
  TETHYS_RETURN_IF_ERROR(communicator.AllReduce(absl::MakeSpan(data)));
  const Nanoseconds start = clock.Now();
  for (int i = 0; i < what.calls; ++i) TETHYS_RETURN_IF_ERROR(communicator.AllReduce(absl::MakeSpan(data)));
  // Summed by an all-reduce, so that all ranks compare the same numbers.
  auto microseconds = static_cast<float>(static_cast<double>(clock.Now() - start) / 1e3 / what.calls);
  TETHYS_RETURN_IF_ERROR(communicator.AllReduce({&microseconds, 1}));
  return microseconds / static_cast<double>(communicator.world_size());
}

struct Comparison {
  bool ring_is_faster = false;  // At the typical size.
  std::string text;
};

absl::StatusOr<Comparison> Compare(Communicator& candidate, Communicator& ring, int64_t typical_bytes,
                                   const Clock& clock) {
  const int64_t bytes = std::clamp<int64_t>(typical_bytes, sizeof(float), kMaxMeasuredBytes);
  const std::string typical = absl::StrCat(bytes / 1024, " KiB");
  Comparison comparison;
  for (const Measurement& what : {Measurement{"4 KiB", 4096, 10}, Measurement{typical.c_str(), bytes, 3}}) {
    TETHYS_ASSIGN_OR_RETURN(const double ours, Measure(candidate, what, clock));
    TETHYS_ASSIGN_OR_RETURN(const double rings, Measure(ring, what, clock));
    comparison.ring_is_faster = rings < ours;
    absl::StrAppendFormat(&comparison.text, "%s%s in %.0f us, by TCP alone in %.0f us",
                          comparison.text.empty() ? "" : "; ", what.name, ours, rings);
  }
  return comparison;
}

int HostCount(const std::vector<int>& hosts) { return 1 + *std::max_element(hosts.begin(), hosts.end()); }

// Shared memory inside the hosts and, where there are several, TCP between their leaders.
absl::StatusOr<std::unique_ptr<Communicator>> CreateByTopology(RingListener& listener,
                                                               const RingOptions& ring, Communicator& all,
                                                               const std::vector<int>& hosts) {
  SharedMemoryOptions shared{.member_names = ring.member_names.empty() ? ring.addresses : ring.member_names,
                             .group = ring.group,
                             .generation = ring.generation,
                             .step_timeout = ring.step_timeout,
                             .clock = ring.clock};
  const bool one_host = HostCount(hosts) == 1;
  // Twice the patience of the leaders, whom the others wait for.
  if (!one_host) shared.step_timeout *= 2;
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> local,
                          CreateSharedMemoryCommunicator(all, hosts, std::move(shared)));
  if (one_host) return local;

  std::unique_ptr<Communicator> leaders;
  if (local->rank() == 0) {
    RingOptions options = ring;
    options.addresses.clear();
    options.member_names.clear();
    options.certificate_names.clear();
    options.group = ring.group + kLeadersGroup;
    options.rank = hosts[ring.rank];
    for (int host = 0; host < HostCount(hosts); ++host) {
      const auto leader = std::find(hosts.begin(), hosts.end(), host) - hosts.begin();
      options.addresses.push_back(ring.addresses[leader]);
      if (ring.tls != nullptr) options.certificate_names.push_back(ring.certificate_names[leader]);
      if (!ring.member_names.empty()) options.member_names.push_back(ring.member_names[leader]);
    }
    TETHYS_ASSIGN_OR_RETURN(leaders, CreateRingCommunicator(listener, std::move(options)));
  }
  return CreateHierarchicalCommunicator(ring.rank, hosts, std::move(local), std::move(leaders));
}

std::string TopologyText(const std::vector<int>& hosts) {
  if (HostCount(hosts) == 1) return absl::StrCat("shared memory among ", hosts.size(), " workers");
  return absl::StrCat("shared memory inside ", HostCount(hosts), " hosts and TCP between them, ",
                      hosts.size(), " workers");
}

}  // namespace

absl::StatusOr<std::vector<int>> FindHosts(Communicator& all, const std::vector<std::string>& addresses) {
  const absl::StatusOr<std::string> boot = ReadFile("/proc/sys/kernel/random/boot_id", 4096);
  // A host that does not say who it is shares nothing.
  const std::string own = absl::StrCat(boot.ok() ? *boot : absl::StrCat("rank ", all.rank()));
  TETHYS_ASSIGN_OR_RETURN(const HostPort bound, ParseHostPort(addresses[all.rank()]));
  const std::string place = absl::StrCat(own, " ", bound.host);
  const uint64_t key = Fnv1a(place.data(), place.size());

  std::vector<uint64_t> keys;
  std::vector<int> hosts;
  for (int root = 0; root < all.world_size(); ++root) {
    std::array<float, 2> words;
    std::memcpy(words.data(), &key, sizeof(key));
    TETHYS_RETURN_IF_ERROR(all.Broadcast(absl::MakeSpan(words), root));
    uint64_t theirs = 0;
    std::memcpy(&theirs, words.data(), sizeof(theirs));
    const auto known = std::find(keys.begin(), keys.end(), theirs);
    hosts.push_back(static_cast<int>(known - keys.begin()));
    if (known == keys.end()) keys.push_back(theirs);
  }
  return hosts;
}

absl::StatusOr<Exchange> CreateExchange(RingListener& listener, const RingOptions& ring,
                                        const TransportWish& wish) {
  const bool wanted = wish.transport == proto::Mirrored::SHARED_MEMORY;
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> all, CreateRingCommunicator(listener, ring));
  const auto by_tcp = [&all](absl::string_view why) {
    std::string description = absl::StrCat("TCP among ", all->world_size(), " workers: ", why);
    return Exchange{.communicator = std::move(all), .description = std::move(description)};
  };
  if (wish.transport == proto::Mirrored::TCP) return by_tcp("as the job says");
  if (all->world_size() == 1) return by_tcp("there is nobody to exchange with");

  TETHYS_ASSIGN_OR_RETURN(const std::vector<int> hosts, FindHosts(*all, ring.addresses));
  if (HostCount(hosts) == all->world_size()) {
    if (!wanted) return by_tcp("no two of them share a host");
    return absl::FailedPreconditionError(
        "transport is SHARED_MEMORY, but no two workers share a host; leave it AUTOMATIC, or put workers "
        "together");
  }
  absl::StatusOr<std::unique_ptr<Communicator>> candidate = CreateByTopology(listener, ring, *all, hosts);
  if (candidate.status().code() == absl::StatusCode::kFailedPrecondition && !wanted) {
    return by_tcp(candidate.status().message());
  }
  if (!candidate.ok()) return candidate.status();

  TETHYS_ASSIGN_OR_RETURN(const Comparison comparison,
                          Compare(**candidate, *all, wish.typical_bytes, *ring.clock));
  const bool may_choose = wish.transport == proto::Mirrored::AUTOMATIC && HostCount(hosts) == 1;
  if (may_choose && comparison.ring_is_faster) {
    return by_tcp(absl::StrCat("it is faster than ", TopologyText(hosts), ", ", comparison.text));
  }
  return Exchange{.communicator = *std::move(candidate),
                  .description = absl::StrCat(TopologyText(hosts), " (", comparison.text, ")")};
}

}  // namespace tethys
