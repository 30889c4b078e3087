// Assigns the processes of a job to hosts of a host file. The rule, in this order:
//
//  1. chief    The first host whose role= names chief; else the first host of the file. It takes no slot.
//  2. servers  Hosts that name ps, round robin, one slot at a time; then likewise hosts that name no
//              role, from the end of the file to its start.
//  3. workers  Hosts that name worker, then hosts that name no role, in the file's order, each filled
//              before the next.
//
// Among hosts that name no role, the chief's host comes last.
//
// A host that names roles gets no servers or workers of other roles. Indices follow the file's order, so
// ranks of one host are adjacent. For example, of one master and eight slaves without roles, nine workers use
// all nine; six workers run on slave1 to slave6 and two servers on slave7 and slave8. Pure, thread-safe.
#ifndef TETHYS_RUNTIME_CLUSTER_ROLE_ASSIGNMENT_H_
#define TETHYS_RUNTIME_CLUSTER_ROLE_ASSIGNMENT_H_

#include <vector>

#include "absl/types/span.h"
#include "runtime/cluster/host_file.h"

namespace tethys {

// For each process, the index of its host in the list of hosts.
struct RoleAssignment {
  int chief = 0;
  std::vector<int> servers;  // The host of each server.
  std::vector<int> workers;  // The host of each worker.
};

// FailedPrecondition: there are too few slots; the message says how many are missing for which role.
absl::StatusOr<RoleAssignment> AssignRoles(absl::Span<const HostEntry> hosts, int workers, int servers);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_ROLE_ASSIGNMENT_H_
