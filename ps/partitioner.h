// Cuts variables into shards and places the shards on servers. Pure: the chief computes the placement once
// and sends it to everyone; `tethys plan` prints it.
//
// Cutting follows TensorFlow's partitioners (proto/job.proto states the rules). Placement is by bytes: the
// largest shard first, onto the server that holds least; ties go to the shard that comes first in the arena
// and to the server of lowest index, so everybody who computes it gets the same answer.
#ifndef TETHYS_PS_PARTITIONER_H_
#define TETHYS_PS_PARTITIONER_H_

#include <string>
#include <vector>

#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// Shards ordered by begin; each holds whole rows (entries of axis 0) of one variable, the first shards one
// row more where the rows do not divide evenly. InvalidArgument names the variable and its rows when a Fixed
// partitioner asks for more shards than it has, and the field when a count or size is out of range.
absl::StatusOr<proto::Placement> PlaceShards(const VariableSet& variables,
                                             const proto::ParameterServer& config);

// Neighbouring servers [first, last] with equal loads, in short lists: what is beyond 15 such groups is one
// more, which holds at most as much on each.
struct ServerGroup {
  int first = 0;
  int last = 0;
  int64_t shards = 0;    // On each.
  int64_t elements = 0;  // On each.
  bool at_most = false;
};
std::vector<ServerGroup> GroupServers(const proto::Placement& placement);

// A line per group of servers (shards, bytes, share) and one for the imbalance: the fullest server over the
// mean.
std::string PlacementTable(const proto::Placement& placement);

}  // namespace tethys

#endif  // TETHYS_PS_PARTITIONER_H_
