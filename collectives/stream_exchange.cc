#include "collectives/stream_exchange.h"

#include <cstring>
#include <map>
#include <utility>
#include <vector>

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

// Why devices cannot do it; empty when they can.
absl::StatusOr<std::string> Obstacle(Communicator& all, const Device& device) {
  const std::string own = device.identity();
  std::map<uint64_t, int> users;  // Rank by device.
  for (int root = 0; root < all.world_size(); ++root) {
    const uint64_t key = own.empty() ? 0 : Fnv1a(own.data(), own.size()) | 1;
    std::string bytes(reinterpret_cast<const char*>(&key), sizeof(key));
    TETHYS_RETURN_IF_ERROR(BroadcastBytes(all, root, bytes));
    uint64_t theirs = 0;
    std::memcpy(&theirs, bytes.data(), sizeof(theirs));
    if (theirs == 0) return absl::StrCat("the device of rank ", root, " has no all-reduce of its own");
    const auto [first, added] = users.emplace(theirs, root);
    if (!added) return absl::StrCat("ranks ", first->second, " and ", root, " share a device");
  }
  return std::string();
}

}  // namespace

absl::StatusOr<StreamExchange> CreateStreamExchange(Communicator& all, Device& device, Nanoseconds timeout,
                                                    const Clock& clock) {
  TETHYS_ASSIGN_OR_RETURN(std::string obstacle, Obstacle(all, device));
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
