// The place of a worker in a group of its job (proto::Group). An index names a worker for its whole life; a
// rank is its place in one group, from 0 without gaps. Pure.
#ifndef TETHYS_RUNTIME_CLUSTER_GROUP_PLACE_H_
#define TETHYS_RUNTIME_CLUSTER_GROUP_PLACE_H_

#include "proto/chief.pb.h"
#include "proto/member.pb.h"

namespace tethys {

struct WorkerPlace {
  static constexpr int kNone = -1;
  int rank = kNone;  // Place among the workers of the group; kNone: the worker is not a member.
  int world = 0;     // Number of workers in the group.
};

// `index`: the worker's index.
inline WorkerPlace PlaceIn(const proto::Group& group, int index) {
  WorkerPlace place;
  for (const proto::Member& member : group.member()) {
    if (member.role() != proto::WORKER) continue;
    if (member.index() == index) place.rank = place.world;
    ++place.world;
  }
  return place;
}

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_GROUP_PLACE_H_
