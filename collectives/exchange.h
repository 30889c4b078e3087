// Creates the communicator by which mirrored workers exchange gradients. Only this file chooses between TCP,
// shared memory, and a combination of the two. The choice depends on the hosts of the ranks and on the job's
// tuning.transport.
//
// CreateExchange blocks until all ranks are connected and have agreed on the choice. Every rank calls it at
// the same time, with the same `transport`.
#ifndef TETHYS_COLLECTIVES_EXCHANGE_H_
#define TETHYS_COLLECTIVES_EXCHANGE_H_

#include <memory>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/ring_communicator.h"
#include "proto/job.pb.h"

namespace tethys {

struct Exchange {
  std::unique_ptr<Communicator> communicator;
  // The choice and its reason, the same on every rank:
  // "shared memory among 2 workers", "TCP among 2 workers: no two of them share a host".
  std::string description;
};

// Returns a host number for each rank. Ranks are on one host if they have the same boot id of the kernel and
// the same bind address, so network namespaces of one machine count as different hosts. A collective over
// `all`: every rank calls it. `own_address` is the address of this rank's listener; every rank passes its
// own.
absl::StatusOr<std::vector<int>> FindHosts(Communicator& all, const std::string& own_address);

// With AUTOMATIC, all ranks use shared memory if they are on one host. If only some ranks share a host, ranks
// use shared memory inside each host and TCP between hosts. If no ranks share a host, or memory cannot be
// shared, all ranks use TCP. The choice depends on no measurement, so that every run of a job makes the same
// choice.
//
// Raising ring.interruption ends CreateExchange and, later, every call of the communicator.
//
// Has the errors of CreateRingCommunicator. FailedPrecondition can also mean that the job requires
// SHARED_MEMORY, but the ranks cannot share memory.
absl::StatusOr<Exchange> CreateExchange(RingListener& listener, const RingOptions& ring,
                                        proto::Tuning::Transport transport);

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_EXCHANGE_H_
