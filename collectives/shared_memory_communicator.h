// A Communicator in shared memory, for ranks on one host. A short vector is written once by every rank and
// read by all; of a long one every rank sums one block for all. Both add in the order in which the ring over
// TCP adds (ring_communicator.cc), so that the two give the same bits.
//
// Made out of a communicator that connects the ranks already: through it they tell one another where the
// memory is, and whether all of them could open it.
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
  std::vector<std::string> member_names;  // Of all ranks of `all`: "worker 2 on 10.0.0.3", for errors.
  uint32_t group = 0;
  uint32_t generation = 1;
  // A collective that makes no progress for so long, while no other rank computes, has failed.
  Nanoseconds step_timeout = 30 * kSecond;
  PeersCompute peers_compute = nullptr;
  const Clock* clock = nullptr;  // Required; not owned.
};

// The communicator of the ranks of `all` with the same host number as this one, `hosts[r]` being rank r's;
// its ranks are in the order of theirs. Called by every rank of `all`, with equal `hosts`, at the same time.
// Blocks as the collectives of `all` do. Every rank gets the same answer: FailedPrecondition names the first
// that cannot open the memory, or has not got enough of it (then its own answer and its log say why).
absl::StatusOr<std::unique_ptr<Communicator>> CreateSharedMemoryCommunicator(Communicator& all,
                                                                             absl::Span<const int> hosts,
                                                                             SharedMemoryOptions options);

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_SHARED_MEMORY_COMMUNICATOR_H_
