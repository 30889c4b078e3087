// The rank of a worker in a group of its job (proto::Group), and the number of workers in the group. An index
// names a worker for its whole life; ranks number the workers of one group, from 0 without gaps. Pure.
#ifndef TETHYS_RUNTIME_CLUSTER_GROUP_PLACE_H_
#define TETHYS_RUNTIME_CLUSTER_GROUP_PLACE_H_

#include <vector>

#include "proto/chief.pb.h"
#include "proto/member.pb.h"

namespace tethys {

struct WorkerPlace {
  static constexpr int kNone = -1;
  int rank = kNone;  // Rank among the workers of the group; kNone: the worker is not a member.
  int world = 0;     // Number of workers in the group.
};

// The rank in `group` of the worker with this index, and the group's number of workers.
inline WorkerPlace PlaceIn(const proto::Group& group, int index) {
  WorkerPlace place;
  for (const proto::Member& member : group.member()) {
    if (member.role() != proto::WORKER) continue;
    if (member.index() == index) place.rank = place.world;
    ++place.world;
  }
  return place;
}

// The indices of the group's workers, by rank.
inline std::vector<int> WorkersIn(const proto::Group& group) {
  std::vector<int> workers;
  for (const proto::Member& member : group.member()) {
    if (member.role() == proto::WORKER) workers.push_back(member.index());
  }
  return workers;
}

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_GROUP_PLACE_H_
