#include "collectives/stream_exchange.h"

#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "collectives/all_gather.h"
#include "runtime/base/random.h"

namespace tethys {
namespace {

// Groups' ids are short (NCCL's: 128 bytes).
constexpr size_t kIdBytes = 256;

// Bytes of `root`, the same number on all ranks, as the bits of floats, which a broadcast leaves as they are.
absl::Status BroadcastBytes(Communicator& all, int root, std::string& bytes) {
  std::vector<float> words((bytes.size() + sizeof(float) - 1) / sizeof(float));
  std::memcpy(words.data(), bytes.data(), bytes.size());
  TETHYS_RETURN_IF_ERROR(all.Broadcast(absl::MakeSpan(words), root));
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return absl::OkStatus();
}

// What a rank tells of its device: one of these, or a number that stands for that device alone.
constexpr uint64_t kOnTheCpu = 0;
constexpr uint64_t kCannotSum = 1;

uint64_t KeyOf(const Device& device) {
  if (device.reads_host_memory()) return kOnTheCpu;
  const std::string identity = device.identity();
  return identity.empty() ? kCannotSum : Fnv1a(identity.data(), identity.size()) | 2;
}

// "rank 2", "ranks 0, 2"; empty where no rank has that key.
std::string RanksWith(uint64_t key, const std::vector<uint64_t>& keys) {
  std::vector<size_t> ranks;
  for (size_t rank = 0; rank < keys.size(); ++rank) {
    if (keys[rank] == key) ranks.push_back(rank);
  }
  if (ranks.empty()) return "";
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", absl::StrJoin(ranks, ", "));
}

// Why devices cannot do it, the same on every rank; empty when they can.
std::string Obstacle(const std::vector<uint64_t>& keys) {
  const std::string on_the_cpu = RanksWith(kOnTheCpu, keys);
  if (!on_the_cpu.empty()) return on_the_cpu + " on the CPU";
  const std::string cannot = RanksWith(kCannotSum, keys);
  if (!cannot.empty()) return cannot + " on a device without an all-reduce of its own";
  std::map<uint64_t, size_t> users;  // Rank by device.
  for (size_t rank = 0; rank < keys.size(); ++rank) {
    const auto [first, added] = users.emplace(keys[rank], rank);
    if (!added) return absl::StrCat("ranks ", first->second, " and ", rank, " share a device");
  }
  return "";
}

}  // namespace

absl::StatusOr<StreamExchange> CreateStreamExchange(Communicator& all, Device& device, Nanoseconds timeout,
                                                    const Clock& clock) {
  TETHYS_ASSIGN_OR_RETURN(const std::vector<uint64_t> keys, AllGather(all, KeyOf(device)));
  std::string obstacle = Obstacle(keys);
  if (!obstacle.empty()) return StreamExchange{.communicator = nullptr, .reason = std::move(obstacle)};

  // Rank 0's id, its length before it; length 0 when it could make none.
  std::string id(1 + kIdBytes, '\0');
  absl::Status made;
  if (all.rank() == 0) {
    absl::StatusOr<std::string> fresh = device.NewGroupId();
    made = fresh.status();
    if (made.ok() && (fresh->empty() || fresh->size() >= kIdBytes)) {
      made = absl::InternalError(absl::StrCat("a group's id has ", fresh->size(), " bytes"));
    }
    if (made.ok()) {
      id[0] = static_cast<char>(fresh->size());
      id.replace(1, fresh->size(), *fresh);
    }
  }
  TETHYS_RETURN_IF_ERROR(BroadcastBytes(all, 0, id));
  TETHYS_RETURN_IF_ERROR(Annotate(made, "rank 0"));
  const auto length = static_cast<unsigned char>(id[0]);
  if (length == 0) return absl::UnavailableError("rank 0 could not begin a group of devices");

  auto joined = device.JoinGroup({.id = id.substr(1, length),
                                  .rank = all.rank(),
                                  .world_size = all.world_size(),
                                  .timeout = timeout,
                                  .clock = &clock});
  TETHYS_RETURN_IF_ERROR(Annotate(joined.status(), absl::StrCat("rank ", all.rank())));
  TETHYS_RETURN_IF_ERROR(all.Barrier());
  return StreamExchange{.communicator = *std::move(joined), .reason = "every rank has a device of its own"};
}

}  // namespace tethys
