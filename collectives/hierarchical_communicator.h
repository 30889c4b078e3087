// A Communicator for ranks of which some share a host: what leaves a host is the sum over its ranks, and one
// rank of each host, its leader, exchanges it with the leaders of the others. Sums within a host first, so in
// another order than a ring of all ranks, but always in the same.
#ifndef TETHYS_COLLECTIVES_HIERARCHICAL_COMMUNICATOR_H_
#define TETHYS_COLLECTIVES_HIERARCHICAL_COMMUNICATOR_H_

#include <memory>
#include <vector>

#include "collectives/communicator.h"

namespace tethys {

// `hosts[r]`: the number of rank r's host, counted from 0 in the order of their first ranks, which are the
// leaders. `local`: among the ranks of this host, in their order. `leaders`: among the leaders, in the order
// of hosts; null on the other ranks.
//
// When one of the two fails the other is aborted with that error, so it reaches all ranks of all hosts.
// `local` should have the longer patience: its ranks wait while the leader waits for other hosts.
std::unique_ptr<Communicator> CreateHierarchicalCommunicator(int rank, std::vector<int> hosts,
                                                             std::unique_ptr<Communicator> local,
                                                             std::unique_ptr<Communicator> leaders);

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_HIERARCHICAL_COMMUNICATOR_H_
