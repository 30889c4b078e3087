// A Communicator for several hosts, some of which run several ranks. It first sums over the ranks of each
// host. One rank of each host, its leader, then exchanges the sum with the other leaders. The order of
// additions differs from that of a ring of all ranks, but never changes.
#ifndef TETHYS_COLLECTIVES_HIERARCHICAL_COMMUNICATOR_H_
#define TETHYS_COLLECTIVES_HIERARCHICAL_COMMUNICATOR_H_

#include <memory>
#include <vector>

#include "collectives/communicator.h"

namespace tethys {

// `hosts[r]` is the number of rank r's host; hosts are numbered from 0 in the order of their first ranks,
// which are the leaders. `local` connects the ranks of this host, in rank order. `leaders` connects the
// leaders, in the order of hosts; it is null on the other ranks.
//
// If `local` or `leaders` fails, the other communicator is aborted with the same error, so that the error
// reaches all ranks of all hosts. `local` should have the longer timeout, because its ranks wait while the
// leader waits for other hosts.
std::unique_ptr<Communicator> CreateHierarchicalCommunicator(int rank, std::vector<int> hosts,
                                                             std::unique_ptr<Communicator> local,
                                                             std::unique_ptr<Communicator> leaders);

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_HIERARCHICAL_COMMUNICATOR_H_
