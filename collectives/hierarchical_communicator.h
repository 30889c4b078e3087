// A Communicator for ranks on several hosts, where some ranks share a host. It first sums over the ranks of
// each host, in shared memory. One rank of each host, its leader, then exchanges the sum with the other
// leaders. The order of additions differs from the order in a ring of all ranks, but is the same in every
// run.
#ifndef TETHYS_COLLECTIVES_HIERARCHICAL_COMMUNICATOR_H_
#define TETHYS_COLLECTIVES_HIERARCHICAL_COMMUNICATOR_H_

#include <memory>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/shared_memory_communicator.h"

namespace tethys {

// The number of hosts. `hosts[r]` is the number of rank r's host; hosts are numbered from 0 in the order of
// their first ranks, which are the leaders.
int HostCount(const std::vector<int>& hosts);

// Returns the communicator that `hosts` calls for: shared memory if there is one host, `all` itself if every
// rank has a host of its own, otherwise a communicator that uses shared memory inside the hosts and `all`
// between the hosts. Called by every rank of `all`, with equal `hosts`, at the same time. `shared` has the
// names of all ranks; its step_timeout is the timeout of `all`.
//
// On success `all` is moved from; on an error `all` is unchanged. Has the errors of
// CreateSharedMemoryCommunicator and of Split.
absl::StatusOr<std::unique_ptr<Communicator>> CreateCommunicatorOfHosts(std::unique_ptr<Communicator>& all,
                                                                        const std::vector<int>& hosts,
                                                                        const SharedMemoryOptions& shared);

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_HIERARCHICAL_COMMUNICATOR_H_
