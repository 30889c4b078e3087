#include "ps/partitioner.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"

namespace tethys {
namespace {

constexpr int64_t kDefaultMinShardBytes = 256 << 10;
constexpr int kMaxServers = 4096;
constexpr size_t kMostGroups = 15;
constexpr int64_t kMaxShards = int64_t{1} << 19;
// The number of blocks per server. With fewer blocks, runs of the arena are longer and messages fewer; with
// more blocks, servers are loaded more evenly. For ResNet-50 on two servers, in messages of 344 KiB, shard by
// shard (without blocks) gives 137 runs and 375 messages, and the fullest server has 1.000 of the mean load;
// 32 blocks per server give 40 runs, 303 messages and 1.001; 8 blocks per server give 12 runs, 295 messages
// and 1.005.
constexpr int64_t kBlocksPerServer = 32;

int64_t Rows(const Variable& variable) { return variable.shape.empty() ? 1 : variable.shape[0]; }

absl::Status CheckRanges(int servers, const proto::Partitioner& partitioner) {
  const auto refuse = [](absl::string_view field, int64_t value, absl::string_view expected) {
    return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, "; expected ", expected));
  };
  if (servers < 1 || servers > kMaxServers) {
    return refuse("strategy.parameter_server.servers", servers, absl::StrCat("1 to ", kMaxServers));
  }
  switch (partitioner.kind_case()) {
    case proto::Partitioner::kFixed:
      if (partitioner.fixed().shards() < 1) {
        return refuse("tuning.partitioner.fixed.shards", partitioner.fixed().shards(), "at least 1");
      }
      break;
    case proto::Partitioner::kMaxSize:
      if (partitioner.max_size().max_shard_bytes() < 1) {
        return refuse("tuning.partitioner.max_size.max_shard_bytes", partitioner.max_size().max_shard_bytes(),
                      "at least 1");
      }
      if (partitioner.max_size().max_shards() < 0) {
        return refuse("tuning.partitioner.max_size.max_shards", partitioner.max_size().max_shards(),
                      "0 (no cap) or more");
      }
      break;
    case proto::Partitioner::kMinSize:
      if (partitioner.min_size().min_shard_bytes() < 0) {
        return refuse("tuning.partitioner.min_size.min_shard_bytes", partitioner.min_size().min_shard_bytes(),
                      "at least 1");
      }
      if (partitioner.min_size().max_shards() < 0) {
        return refuse("tuning.partitioner.min_size.max_shards", partitioner.min_size().max_shards(),
                      "at least 1");
      }
      break;
    case proto::Partitioner::KIND_NOT_SET:
      break;
  }
  return absl::OkStatus();
}

int64_t CeilDivide(int64_t a, int64_t b) { return a / b + (a % b != 0); }

// The number of shards of a variable, by one of the three rules in proto/job.proto. A field that is 0 means
// its default.
absl::StatusOr<int64_t> ShardCount(const Variable& variable, const proto::Partitioner& partitioner,
                                   int servers) {
  const int64_t rows = Rows(variable);
  const int64_t bytes = variable.range.count * static_cast<int64_t>(sizeof(float));
  if (partitioner.has_fixed()) {
    if (partitioner.fixed().shards() > rows) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tuning.partitioner.fixed requests ", partitioner.fixed().shards(), " shards, but variable '",
          variable.name, "' of shape ", ShapeText(variable.shape), " has ", rows,
          rows == 1 ? " row" : " rows", ": request fewer shards, or use min_size"));
    }
    return partitioner.fixed().shards();
  }
  if (partitioner.has_max_size()) {
    const proto::MaxSize& rule = partitioner.max_size();
    const int64_t rows_per_shard = std::max<int64_t>(1, rule.max_shard_bytes() / (bytes / rows));
    const int64_t shards = CeilDivide(rows, rows_per_shard);
    return rule.max_shards() > 0 ? std::min<int64_t>(shards, rule.max_shards()) : shards;
  }
  const proto::MinSize& rule = partitioner.min_size();
  const int64_t min_bytes = rule.min_shard_bytes() > 0 ? rule.min_shard_bytes() : kDefaultMinShardBytes;
  const int64_t max_shards = rule.max_shards() > 0 ? rule.max_shards() : servers;
  return std::max<int64_t>(1, std::min({rows, max_shards, CeilDivide(bytes, min_bytes)}));
}

absl::Status CheckShardCount(int64_t shards, const proto::Partitioner& partitioner) {
  if (shards <= kMaxShards) return absl::OkStatus();
  const char* rule = partitioner.has_fixed()      ? "fixed: lower fixed.shards"
                     : partitioner.has_max_size() ? "max_size: raise max_shard_bytes, or set max_shards"
                                                  : "min_size: raise min_shard_bytes, or lower max_shards";
  return absl::InvalidArgumentError(absl::StrCat("the model would be cut into more than ", kMaxShards,
                                                 " shards (the limit) by tuning.partitioner.", rule));
}

void CutVariable(const Variable& variable, int64_t shards, proto::Placement& placement) {
  const int64_t rows = Rows(variable);
  const int64_t row_elements = variable.range.count / rows;
  int64_t row = 0;
  for (int64_t i = 0; i < shards; ++i) {
    const int64_t shard_rows = rows / shards + (i < rows % shards);
    proto::Shard& shard = *placement.add_shard();
    shard.set_variable(variable.name);
    shard.set_begin(variable.range.begin + row * row_elements);
    shard.set_count(shard_rows * row_elements);
    row += shard_rows;
  }
}

// Consecutive shards, which go to one server.
struct Block {
  int first = 0;
  int end = 0;
  int64_t elements = 0;
};

std::vector<Block> MakeBlocks(const proto::Placement& placement) {
  int64_t total = 0;
  for (const proto::Shard& shard : placement.shard()) total += shard.count();
  const int64_t most = total / (kBlocksPerServer * placement.servers());
  std::vector<Block> blocks;
  for (int i = 0; i < placement.shard_size(); ++i) {
    const int64_t elements = placement.shard(i).count();
    if (blocks.empty() || blocks.back().elements + elements > most) blocks.push_back({.first = i});
    blocks.back().end = i + 1;
    blocks.back().elements += elements;
  }
  return blocks;
}

void AssignServers(proto::Placement& placement) {
  std::vector<Block> largest_first = MakeBlocks(placement);
  std::stable_sort(largest_first.begin(), largest_first.end(),
                   [](const Block& a, const Block& b) { return a.elements > b.elements; });
  using Load = std::pair<int64_t, int32_t>;  // The number of elements on a server, and the server's index.
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  for (int32_t server = 0; server < placement.servers(); ++server) loads.push({0, server});
  for (const Block& block : largest_first) {
    const auto [elements, server] = loads.top();
    loads.pop();
    for (int i = block.first; i < block.end; ++i) placement.mutable_shard(i)->set_server(server);
    loads.push({elements + block.elements, server});
  }
}

}  // namespace

absl::StatusOr<proto::Placement> PlaceShards(const VariableSet& variables, int servers,
                                             const proto::Partitioner& partitioner) {
  TETHYS_RETURN_IF_ERROR(CheckRanges(servers, partitioner));
  proto::Placement placement;
  placement.set_servers(servers);
  int64_t total = 0;
  for (const Variable& variable : variables.variables()) {
    if (!variable.trainable) continue;
    TETHYS_ASSIGN_OR_RETURN(const int64_t shards, ShardCount(variable, partitioner, servers));
    total += shards;
    TETHYS_RETURN_IF_ERROR(CheckShardCount(total, partitioner));
    CutVariable(variable, shards, placement);
  }
  AssignServers(placement);
  return placement;
}

std::vector<ServerGroup> GroupServers(const proto::Placement& placement) {
  std::vector<ServerGroup> servers(placement.servers());
  for (const proto::Shard& shard : placement.shard()) {
    servers[shard.server()].shards += 1;
    servers[shard.server()].elements += shard.count();
  }
  std::vector<ServerGroup> groups;
  for (int index = 0; index < static_cast<int>(servers.size()); ++index) {
    const ServerGroup& server = servers[index];
    const bool alike = !groups.empty() && !groups.back().at_most && groups.back().shards == server.shards &&
                       groups.back().elements == server.elements;
    if (!alike && groups.size() <= kMostGroups) {
      groups.push_back({index, index, server.shards, server.elements, false});
      continue;
    }
    ServerGroup& last = groups.back();
    last.last = index;
    last.at_most |= !alike;
    last.shards = std::max(last.shards, server.shards);
    last.elements = std::max(last.elements, server.elements);
  }
  return groups;
}

std::string PlacementTable(const proto::Placement& placement) {
  int64_t total = 0;
  for (const proto::Shard& shard : placement.shard()) total += shard.count();
  std::string table = "server  shards         bytes   share\n";
  int64_t fullest = 0;
  for (const ServerGroup& group : GroupServers(placement)) {
    const bool one = group.first == group.last;
    const std::string name = one ? absl::StrCat(group.first) : absl::StrCat(group.first, "-", group.last);
    const double share = total == 0 ? 0.0 : 100.0 * group.elements / total;
    const auto bytes = group.elements * static_cast<int64_t>(sizeof(float));
    absl::StrAppendFormat(&table, "%6s %7d %13d %6.1f%%%s\n", name, group.shards, bytes, share,
                          group.at_most ? " at most"
                          : one         ? ""
                                        : " each");
    fullest = std::max(fullest, group.elements);
  }
  const double imbalance = total == 0 ? 1.0 : static_cast<double>(fullest) * placement.servers() / total;
  absl::StrAppendFormat(&table, "imbalance %.3f (bytes of the fullest server / mean over the servers)\n",
                        imbalance);
  return table;
}

}  // namespace tethys
