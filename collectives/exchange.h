// How mirrored workers exchange gradients: the one place that chooses among TCP, shared memory and the two
// together, by where the ranks are and by the job's wish.
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
  // "shared memory among 2 workers", "TCP among 2 workers: no two of them share a host".
  std::string description;
};

// A number for each rank, equal where ranks are on one host: the same boot of the same kernel, and the same
// address to bind to. So the members of a cluster of network namespaces count as hosts of their own. Called
// by every rank of `all`; `addresses` as in RingOptions.
absl::StatusOr<std::vector<int>> FindHosts(Communicator& all, const std::vector<std::string>& addresses);

// AUTOMATIC: shared memory where all ranks are on one host, shared memory inside hosts and TCP between them
// where some share a host, else TCP; also TCP where memory cannot be shared. Nothing is measured: repeats of
// a job are to exchange alike.
//
// Errors as CreateRingCommunicator; FailedPrecondition: SHARED_MEMORY was asked for, and is not to be had.
absl::StatusOr<Exchange> CreateExchange(RingListener& listener, const RingOptions& ring,
                                        proto::Mirrored::Transport transport);

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_EXCHANGE_H_
