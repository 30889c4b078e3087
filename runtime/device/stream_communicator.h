// All-reduce as work on a device's stream (NCCL), among ranks that each have a device of their own. As a
// collectives/ Communicator, it is made for one group, and broken for good once an operation failed. Used by
// the device's thread.
#ifndef TETHYS_RUNTIME_DEVICE_STREAM_COMMUNICATOR_H_
#define TETHYS_RUNTIME_DEVICE_STREAM_COMMUNICATOR_H_

#include <cstdint>
#include <string>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/device/bfloat16.h"

namespace tethys {

class Stream;

// What all ranks of a group agree on, and which of them this is.
struct StreamGroup {
  std::string id;  // Device::NewGroupId of rank 0.
  int rank = 0;
  int world_size = 1;
  Nanoseconds timeout = 60 * kSecond;  // For all ranks to join, and for a call to be taken.
  const Clock* clock = nullptr;        // Outlives the communicator.
};

class StreamCommunicator {
 public:
  virtual ~StreamCommunicator() = default;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  // Puts on the stream: data[i], device memory, becomes the sum over ranks, the same bits on all. Partial
  // sums are rounded to the type of the data. Every rank puts the same counts of the same type in the same
  // order. Does not wait for others.
  virtual absl::Status AllReduce(Stream& stream, float* data, int64_t count) = 0;
  virtual absl::Status AllReduce(Stream& stream, Bfloat16* data, int64_t count) = 0;

  // The first error of work put on streams, without waiting for it.
  virtual absl::Status Check() = 0;

  // Ends the work in flight on this rank; what it has written is then undefined. Other ranks notice by their
  // deadlines. Requires, as the destructor does, that no Graph which captured an all-reduce of this
  // communicator is alive: NCCL waits until the last of them is destroyed.
  virtual void Abort() = 0;

  virtual std::string Describe() const = 0;  // "NCCL 2.28.9 among 4 GPUs"
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_STREAM_COMMUNICATOR_H_
