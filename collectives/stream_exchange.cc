#include "collectives/stream_exchange.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/random.h"

namespace tethys {
namespace {

// The id of a group of devices (with NCCL 128 bytes), which rank 0 creates. Length 0: rank 0 could not create
// an id.
struct GroupId {
  uint16_t length = 0;
  std::array<char, 256> bytes = {};
};

// A rank describes its device by one of these two keys, or by a hash of the device's identity.
constexpr uint64_t kOnTheCpu = 0;
constexpr uint64_t kCannotSum = 1;

uint64_t KeyOf(const Device& device) {
  if (device.reads_host_memory()) return kOnTheCpu;
  const std::string identity = device.identity();
  return identity.empty() ? kCannotSum : Fnv1a(identity.data(), identity.size()) | 2;
}

// "rank 2", "ranks 0, 2"; empty if no rank has the key `key`.
std::string RanksWith(uint64_t key, const std::vector<uint64_t>& keys) {
  std::vector<size_t> ranks;
  for (size_t rank = 0; rank < keys.size(); ++rank) {
    if (keys[rank] == key) ranks.push_back(rank);
  }
  if (ranks.empty()) return "";
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", absl::StrJoin(ranks, ", "));
}

// The reason why the devices cannot exchange, the same on every rank; empty if they can.
std::string Obstacle(const std::vector<uint64_t>& keys) {
  const std::string on_the_cpu = RanksWith(kOnTheCpu, keys);
  if (!on_the_cpu.empty()) return on_the_cpu + " on the CPU";
  const std::string cannot = RanksWith(kCannotSum, keys);
  if (!cannot.empty()) return cannot + " on a device without an all-reduce of its own";
  std::map<uint64_t, size_t> users;  // For the key of each device, the first rank that has the device.
  for (size_t rank = 0; rank < keys.size(); ++rank) {
    const auto [first, added] = users.emplace(keys[rank], rank);
    if (!added) return absl::StrCat("ranks ", first->second, " and ", rank, " share a device");
  }
  return "";
}

}  // namespace

absl::StatusOr<StreamExchange> CreateStreamExchange(Communicator& all, Device& device,
                                                    const StreamExchangeOptions& options) {
  TETHYS_ASSIGN_OR_RETURN(const std::vector<uint64_t> keys, AllGather(all, KeyOf(device)));
  std::string obstacle = Obstacle(keys);
  if (obstacle.empty()) obstacle = options.obstacle;
  if (!obstacle.empty()) return StreamExchange{.communicator = nullptr, .reason = std::move(obstacle)};

  GroupId own;
  absl::Status made;
  if (all.rank() == 0) {
    const absl::StatusOr<std::string> fresh = device.NewGroupId();
    made = fresh.status();
    if (made.ok() && (fresh->empty() || fresh->size() > own.bytes.size())) {
      made = absl::InternalError(absl::StrCat("the id of a group of devices has ", fresh->size(), " bytes"));
    }
    if (made.ok()) {
      own.length = static_cast<uint16_t>(fresh->size());
      std::copy(fresh->begin(), fresh->end(), own.bytes.begin());
    }
  }
  TETHYS_ASSIGN_OR_RETURN(const std::vector<GroupId> ids, AllGather(all, own));
  TETHYS_RETURN_IF_ERROR(Annotate(made, "rank 0"));
  const GroupId& id = ids[0];
  if (id.length == 0 || id.length > id.bytes.size()) {
    return absl::UnavailableError("rank 0 could not create the group of devices that sums gradients");
  }

  auto joined = device.JoinGroup({.id = std::string(id.bytes.data(), id.length),
                                  .rank = all.rank(),
                                  .world_size = all.world_size(),
                                  .timeout = options.timeout,
                                  .abort_timeout = options.abort_timeout,
                                  .clock = options.clock,
                                  .interrupted = options.interrupted});
  TETHYS_RETURN_IF_ERROR(Annotate(joined.status(), absl::StrCat("rank ", all.rank())));
  TETHYS_RETURN_IF_ERROR(all.Barrier());
  return StreamExchange{.communicator = *std::move(joined), .reason = "every rank has a device of its own"};
}

}  // namespace tethys
