// The name of a task, which it keeps for its whole life. Plain data.
#ifndef TETHYS_RUNTIME_CLUSTER_TASK_ID_H_
#define TETHYS_RUNTIME_CLUSTER_TASK_ID_H_

#include <compare>

#include "proto/member.pb.h"

namespace tethys {

struct TaskId {
  proto::Role role = proto::ROLE_UNKNOWN;
  int index = 0;
  auto operator<=>(const TaskId&) const = default;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_TASK_ID_H_
