// Collective operations among a fixed list of ranks. A communicator is made for one group id and generation;
// once an operation failed, the communicator is broken for good and every later call returns the first error:
// throw it away and make a new one under a new generation.
//
// Every rank calls the same operations with the same counts in the same order; where they do not, every rank
// gets an error that names the mismatch. All calls block under the deadline given at construction (no
// progress for that long) and are made by one thread at a time.
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

  // data[i] becomes the sum over ranks, added in an order that depends only on the world size, the count and
  // i, so a rerun is bit-equal and all ranks hold the same bits.
  virtual absl::Status AllReduce(absl::Span<float> data) = 0;
  // data of `root` to all.
  virtual absl::Status Broadcast(absl::Span<float> data, int root) = 0;
  // Returns when every rank has called it.
  virtual absl::Status Barrier() = 0;

  // Memory of `count` floats, zeroed and page-aligned, in which ranks of one host reduce vectors where they
  // lie, without a copy. It lives as long as the communicator; null where any other memory does as well.
  // A collective of its own: every rank calls it with the same count, once.
  virtual absl::StatusOr<float*> AllocateForReduction(int64_t count) {
    (void)count;
    return nullptr;
  }

  // Sent and received so far, frames included.
  virtual TrafficCount traffic() const = 0;

  // Makes every blocked or later call return `reason`, here; peers see the connection close. Any thread.
  virtual void Abort(const absl::Status& reason) = 0;
};

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_COMMUNICATOR_H_
