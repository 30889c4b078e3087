#include "ps/shard_squares.h"

#include <algorithm>
#include <map>

#include "ps/shard_layout.h"

namespace tethys {

absl::StatusOr<ShardSquares> ShardSquares::Create(const proto::Placement& placement, int64_t arena_size) {
  ShardSquares squares;
  std::map<std::string, size_t> indices;
  for (int index = 0; index < placement.servers(); ++index) {
    TETHYS_ASSIGN_OR_RETURN(const ShardLayout layout, ShardLayout::Create(placement, index, arena_size));
    Server& server = squares.servers_.emplace_back();
    for (const ShardLayout::Shard& shard : layout.shards()) {
      server.variables.push_back(indices.emplace(shard.variable, indices.size()).first->second);
    }
    server.sums.resize(2 * server.variables.size());
  }
  squares.totals_.resize(2 * indices.size());
  return squares;
}

void ShardSquares::AddUp() {
  std::fill(totals_.begin(), totals_.end(), 0);
  for (const Server& server : servers_) {
    for (size_t i = 0; i < server.sums.size(); ++i) {
      totals_[2 * server.variables[i / 2] + i % 2] += server.sums[i];
    }
  }
  for (Server& server : servers_) {
    for (size_t i = 0; i < server.sums.size(); ++i) {
      server.sums[i] = totals_[2 * server.variables[i / 2] + i % 2];
    }
  }
}

}  // namespace tethys
