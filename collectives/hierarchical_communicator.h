// A Communicator for ranks of which some share a host. It sums over the ranks of each host first; one rank of
// each host, its leader, then exchanges the sum with the other leaders. The order of additions differs from
// that of a ring of all ranks, but is always the same.
#ifndef TETHYS_COLLECTIVES_HIERARCHICAL_COMMUNICATOR_H_
#define TETHYS_COLLECTIVES_HIERARCHICAL_COMMUNICATOR_H_

#include <memory>
#include <vector>

#include "collectives/communicator.h"

namespace tethys {

// `hosts[r]` is the number of rank r's host; hosts are counted from 0 in the order of their first ranks,
// which are the leaders. `local` connects the ranks of this host, in rank order. `leaders` connects the
// leaders, in the order of hosts; it is null on the other ranks.
//
// When one of the two fails, the other is aborted with that error, so that it reaches all ranks of all hosts.
// `local` should have the longer timeout: its ranks wait while the leader waits for other hosts.
std::unique_ptr<Communicator> CreateHierarchicalCommunicator(int rank, std::vector<int> hosts,
                                                             std::unique_ptr<Communicator> local,
                                                             std::unique_ptr<Communicator> leaders);

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_HIERARCHICAL_COMMUNICATOR_H_
