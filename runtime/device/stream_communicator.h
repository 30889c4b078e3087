// All-reduce enqueued on a device's stream (NCCL), among ranks that each have a device of their own. Like the
// Communicator of collectives/communicator.h, it serves one group of ranks and cannot be used again after an
// operation has failed. Used by the device's thread.
#ifndef TETHYS_RUNTIME_DEVICE_STREAM_COMMUNICATOR_H_
#define TETHYS_RUNTIME_DEVICE_STREAM_COMMUNICATOR_H_

#include <cstdint>
#include <string>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/device/bfloat16.h"

namespace tethys {

class Stream;

// The parameters that all ranks of a group agree on, and the rank of this process.
struct StreamGroup {
  std::string id;  // From Device::NewGroupId on rank 0.
  int rank = 0;
  int world_size = 1;
  Nanoseconds timeout = 60 * kSecond;  // Limit for all ranks to join, and for NCCL to accept a call.
  const Clock* clock = nullptr;        // Outlives the communicator.
};

class StreamCommunicator {
 public:
  virtual ~StreamCommunicator() = default;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  // Enqueues an all-reduce: data[i], in device memory, becomes the sum over ranks, the same bits on all
  // ranks. Partial sums are rounded to the type of the data. Every rank must enqueue the same counts of the
  // same types in the same order. Does not wait for other ranks. Ranks that are threads of one process must
  // all have made their plans, and launched each kernel once, before one of them enqueues an all-reduce:
  // allocating memory and loading kernels wait for all work of the GPU, and so for a rank that cannot come.
  virtual absl::Status AllReduce(Stream& stream, float* data, int64_t count) = 0;
  virtual absl::Status AllReduce(Stream& stream, Bfloat16* data, int64_t count) = 0;

  // Returns the first error that enqueued work has reported so far. Does not wait for the work.
  virtual absl::Status Check() = 0;

  // Ends the work in flight on this rank; the memory that this work writes is undefined afterwards. Other
  // ranks notice by their deadlines. Abort and the destructor require that every Graph that captured an
  // all-reduce of this communicator has been destroyed, because NCCL waits for that.
  virtual void Abort() = 0;

  virtual std::string Describe() const = 0;  // "NCCL 2.28.9 among 4 GPUs"
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_STREAM_COMMUNICATOR_H_
