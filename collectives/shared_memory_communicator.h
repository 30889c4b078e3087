// A Communicator in shared memory, for ranks on one host. Every rank writes a short vector once and all read
// it; each rank sums one block of a long vector for all. Both add in the same order as the ring over TCP
// (ring_communicator.cc), so that the two give the same bits.
//
// It is created with a communicator that already connects the ranks: through it they exchange the address of
// the memory, and whether all of them could open it.
#ifndef TETHYS_COLLECTIVES_SHARED_MEMORY_COMMUNICATOR_H_
#define TETHYS_COLLECTIVES_SHARED_MEMORY_COMMUNICATOR_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "runtime/base/clock.h"

namespace tethys {

struct SharedMemoryOptions {
  std::vector<std::string> member_names;  // By rank of `all`: "worker 2 on 10.0.0.3", for errors.
  uint32_t group = 0;
  uint32_t generation = 1;
  // A collective fails after this long without progress, while no other rank computes.
  Nanoseconds step_timeout = 30 * kSecond;
  PeersCompute peers_compute = nullptr;
  const Clock* clock = nullptr;  // Required; not owned.
};

// Returns the communicator of those ranks of `all` that have this rank's host number; `hosts[r]` is rank r's.
// It keeps the order of ranks. Called by every rank of `all`, with equal `hosts`, at the same time. Blocks
// like the collectives of `all`. All ranks get the same result: FailedPrecondition names the first rank that
// cannot open or reserve the memory; that rank's log says why.
absl::StatusOr<std::unique_ptr<Communicator>> CreateSharedMemoryCommunicator(Communicator& all,
                                                                             absl::Span<const int> hosts,
                                                                             SharedMemoryOptions options);

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_SHARED_MEMORY_COMMUNICATOR_H_
