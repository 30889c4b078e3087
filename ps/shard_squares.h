// The sums of squares that bulk-synchronous servers measure for trust ratios, and their totals per variable,
// whose shards may lie on several servers. Pure; used by the training thread.
#ifndef TETHYS_PS_SHARD_SQUARES_H_
#define TETHYS_PS_SHARD_SQUARES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/parameter_server.pb.h"
#include "runtime/base/status.h"

namespace tethys {

class ShardSquares {
 public:
  // InvalidArgument: as ShardLayout::Create.
  static absl::StatusOr<ShardSquares> Create(const proto::Placement& placement, int64_t arena_size);

  // A server's sums, two for each of its shards (RegionSquares), in the order of its layout. Filled in by the
  // caller, then replaced by AddUp.
  std::vector<double>& of(int server) { return servers_[server].sums; }
  // Replaces the sums of every shard by the sums of its variable. The order of addition depends on the
  // placement only.
  void AddUp();

 private:
  struct Server {
    std::vector<size_t> variables;  // The variable of each shard.
    std::vector<double> sums;
  };

  std::vector<Server> servers_;
  std::vector<double> totals_;  // Two sums for each variable.
};

}  // namespace tethys

#endif  // TETHYS_PS_SHARD_SQUARES_H_
