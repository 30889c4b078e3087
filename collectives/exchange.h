// How mirrored workers exchange gradients: the one place that chooses among TCP, shared memory and the two
// together, by where the ranks are, by the job's wish and by a measurement.
//
// Creating blocks until all ranks are connected and have agreed on the choice; called by every rank at the
// same time with the same wish.
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
  // What was chosen and why, the same on every rank:
  // "shared memory among 2 workers (4 KiB in 2 us, TCP 41 us; ...)".
  std::string description;
};

struct TransportWish {
  proto::Mirrored::Transport transport = proto::Mirrored::AUTOMATIC;
  int64_t typical_bytes = 1024 * 1024;  // Of an all-reduce: measured at this size, and at 4 KiB.
};

// A number for each rank, equal where ranks are on one host: the same boot of the same kernel, and the same
// address to bind to. So the members of a cluster of network namespaces count as hosts of their own. Called
// by every rank of `all`; `addresses` as in RingOptions.
absl::StatusOr<std::vector<int>> FindHosts(Communicator& all, const std::vector<std::string>& addresses);

// On one host shared memory and TCP give the same bits, so the faster one is taken. Where some ranks share
// hosts and others do not, sums are made in another order than the ring's; so there the choice is by the
// topology alone, and a rerun is bit-equal: shared memory inside the hosts, TCP between them.
//
// Errors as CreateRingCommunicator; FailedPrecondition: SHARED_MEMORY was asked for, and is not to be had.
absl::StatusOr<Exchange> CreateExchange(RingListener& listener, const RingOptions& ring,
                                        const TransportWish& wish);

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_EXCHANGE_H_
