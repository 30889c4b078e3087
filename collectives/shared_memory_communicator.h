// A Communicator in shared memory, for ranks on one host. A short vector is written once by every rank and
// read by all ranks. Of a long vector, each rank sums one block for all ranks. Both ways add in the same
// order as the ring over TCP (ring_communicator.cc), so results have the same bits as the ring's.
//
// CreateSharedMemoryCommunicator uses another communicator, which already connects the ranks. Through that
// communicator, the ranks exchange the address of the memory and tell one another whether they could open it.
#ifndef TETHYS_COLLECTIVES_SHARED_MEMORY_COMMUNICATOR_H_
#define TETHYS_COLLECTIVES_SHARED_MEMORY_COMMUNICATOR_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "runtime/base/clock.h"
#include "runtime/base/interruption.h"

namespace tethys {

struct SharedMemoryOptions {
  std::vector<std::string> member_names;  // One name per rank of `all`, "worker 2 on 10.0.0.3", for errors.
  uint32_t group = 0;
  uint32_t generation = 1;
  // A collective fails after this long without progress. Time in which other ranks compute does not count.
  Nanoseconds step_timeout = 30 * kSecond;
  PeersCompute peers_compute = nullptr;
  const Clock* clock = nullptr;  // Required; not owned.
  // If set, raising the interruption interrupts the communicator and all communicators split from it. The
  // interruption must outlive these communicators. Raising the interruption does not end
  // CreateSharedMemoryCommunicator; only an interrupt of `all` does.
  Interruption* interruption = nullptr;
};

// Returns the communicator of those ranks of `all` that run on this rank's host, in the same order.
// `hosts[r]` is the number of rank r's host. Called by every rank of `all`, with equal `hosts`, at the same
// time. Blocks like the collectives of `all`. The call succeeds on all ranks or on none. FailedPrecondition
// names the first rank that cannot open or reserve the memory; the reason is in the log of that rank.
absl::StatusOr<std::unique_ptr<Communicator>> CreateSharedMemoryCommunicator(Communicator& all,
                                                                             absl::Span<const int> hosts,
                                                                             SharedMemoryOptions options);

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_SHARED_MEMORY_COMMUNICATOR_H_
