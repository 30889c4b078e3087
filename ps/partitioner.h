// Cuts variables into shards and places the shards on servers. Pure. The placement is computed once and sent
// to all tasks in the job plan; `tethys plan` prints it.
//
// Cutting follows TensorFlow's partitioners (proto/job.proto states the rules). Small shards that
// follow one another in the arena make a block, so that a server's shards form few runs of the arena, and few
// messages. Blocks are placed from the largest to the smallest, each on the server that holds the fewest
// bytes so far; so every server has parts from all over the arena, and gets gradients throughout backward.
// Ties go to the block that comes first in the arena and to the server with the lowest index, so the result
// is deterministic.
#ifndef TETHYS_PS_PARTITIONER_H_
#define TETHYS_PS_PARTITIONER_H_

#include <string>
#include <vector>

#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// Cuts the trainable variables into shards for `servers` servers. Returns shards ordered by begin. Each shard
// holds whole rows (entries of axis 0) of one variable; if the rows do not divide evenly, the first shards
// have one row more. InvalidArgument: a Fixed partitioner requests more shards than rows (the error names the
// variable and its rows), or a count or size is out of range (the error names the field).
absl::StatusOr<proto::Placement> PlaceShards(const VariableSet& variables, int servers,
                                             const proto::Partitioner& partitioner = {});

// Adjacent servers [first, last] with equal loads. A list has at most 15 such groups. All further servers
// form one more group, whose `shards` and `elements` are the largest numbers of any server in this group.
struct ServerGroup {
  int first = 0;
  int last = 0;
  int64_t shards = 0;    // Shards on each server.
  int64_t elements = 0;  // Elements on each server.
  bool at_most = false;  // True if the loads differ, and `shards` and `elements` are the largest values.
};
std::vector<ServerGroup> GroupServers(const proto::Placement& placement);

// A table with a line per group of servers (shards, bytes, share) and a last line with the imbalance: the
// bytes of the fullest server divided by the mean over all servers.
std::string PlacementTable(const proto::Placement& placement);

}  // namespace tethys

#endif  // TETHYS_PS_PARTITIONER_H_
