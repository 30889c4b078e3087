// Collective operations among a fixed list of ranks. A communicator is made for one group id and generation.
// Once an operation has failed, the communicator is permanently broken, and every later call returns the
// first error. Discard the communicator then, and create another under a new generation.
//
// Every rank calls the same operations with the same counts in the same order; otherwise every rank gets an
// error that names the mismatch. All calls block and are made by one thread at a time. A call fails if it
// makes no progress for the timeout given at construction.
#ifndef TETHYS_COLLECTIVES_COMMUNICATOR_H_
#define TETHYS_COLLECTIVES_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace tethys {

struct TrafficCount {
  int64_t bytes_out = 0;
  int64_t bytes_in = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  // data[i] becomes the sum over ranks. The order of additions depends only on the world size, the count, i
  // and, if ranks of several hosts share memory, on which ranks share a host. So a rerun with the same kind
  // of communicator on the same hosts is bit-equal, and all ranks hold the same bits.
  virtual absl::Status AllReduce(absl::Span<float> data) = 0;
  // Copies `data` of rank `root` to all ranks.
  virtual absl::Status Broadcast(absl::Span<float> data, int root) = 0;
  // Returns when every rank has called Barrier.
  virtual absl::Status Barrier() = 0;

  // Returns zeroed, page-aligned memory for `count` floats, in which ranks of one host reduce vectors in
  // place without a copy. The memory lives as long as the communicator. Null if any other memory is as fast.
  // This is a collective: every rank calls it once, with the same count.
  virtual absl::StatusOr<float*> AllocateForReduction(int64_t count) {
    (void)count;
    return nullptr;
  }

  // Bytes sent and received so far, including frame headers.
  virtual TrafficCount traffic() const = 0;

  // Makes every blocked or later call on this rank return `reason`; peers see the connection close.
  // Thread-safe.
  virtual void Abort(const absl::Status& reason) = 0;
};

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_COMMUNICATOR_H_
