// Collective operations enqueued on a device's stream. Used by the device's thread.
#ifndef TETHYS_RUNTIME_DEVICE_STREAM_COMMUNICATOR_H_
#define TETHYS_RUNTIME_DEVICE_STREAM_COMMUNICATOR_H_

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/device/bfloat16.h"

namespace tethys {

class Stream;

// The parameters that all ranks of a group agree on, and the rank of this process.
struct StreamGroup {
  std::string id;  // The id that Device::NewGroupId returned on rank 0.
  int rank = 0;
  int world_size = 1;
  // Limit on the time until all ranks have joined, and until NCCL accepts a call.
  Nanoseconds timeout = 60 * kSecond;
  // Limit on the time that Abort takes. NCCL may abort only once all other ranks abort or have ended.
  Nanoseconds abort_timeout = 10 * kSecond;
  const Clock* clock = nullptr;  // Must outlive the communicator.
  // Called while a call waits for other ranks; its error ends the wait. Null: not called.
  std::function<absl::Status()> interrupted = nullptr;
};

// Sums arrays over the ranks of a group in the middle of a step: gradients, or statistics for layers that
// need the whole batch (batch normalisation). Strategies offer a reducer, and primitives use it.
class StreamReducer {
 public:
  virtual ~StreamReducer() = default;

  // Replaces data[i], i < count, in device memory by its sum over the ranks, with the same bits on all ranks.
  // The sum runs after the work that `stream` has now and before work that is enqueued later. Every rank must
  // sum the same counts in the same order. If the host exchanges the data, the call blocks, and has the
  // errors of Strategy::EnqueueEnd. Otherwise it does not wait for other ranks, and a graph may capture it.
  virtual absl::Status AllReduce(Stream& stream, float* data, int64_t count) = 0;
};

// A group of ranks that each have a device of their own; the devices exchange data without the host (NCCL).
// Like the Communicator of collectives/communicator.h, it serves one group of ranks and cannot be used again
// after an operation has failed. Ranks that are threads of one process must all have made their plans, and
// launched each kernel once, before one of them enqueues an operation. Otherwise they could deadlock:
// allocating memory and loading kernels wait for all work of the GPU, including an operation that itself
// waits for the rank that allocates or loads.
class StreamCommunicator : public StreamReducer {
 public:
  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  using StreamReducer::AllReduce;
  // AllReduce in bfloat16. Partial sums are rounded to bfloat16.
  virtual absl::Status AllReduce(Stream& stream, Bfloat16* data, int64_t count) = 0;

  // `data` contains a block of `count` floats for each rank. On rank r, ReduceScatter replaces block r by the
  // sum of the ranks' blocks r, and does not change the other blocks. AllGather copies block r of rank r to
  // all ranks.
  virtual absl::Status ReduceScatter(Stream& stream, float* data, int64_t count) = 0;
  virtual absl::Status AllGather(Stream& stream, float* data, int64_t count) = 0;

  // Send copies `count` floats to the data of the peer's Receive. On the stream, Send and Receive wait for
  // each other, so two ranks that send to each other must not both begin with Send.
  virtual absl::Status Send(Stream& stream, int peer, const float* data, int64_t count) = 0;
  virtual absl::Status Receive(Stream& stream, int peer, float* data, int64_t count) = 0;

  // Returns the first error that enqueued work has reported so far. Does not wait for the work. Unavailable:
  // another rank is lost.
  virtual absl::Status Check() = 0;

  // Ends the work in flight on this rank; the memory that this work writes is undefined afterwards. This may
  // also end the work of other ranks that waits for this rank, and the memory that it writes on those ranks
  // is undefined, too. So every rank that is not lost must have refused its updates before one rank aborts.
  //
  // Abort and the destructor require that every Graph that captured an all-reduce of this communicator has
  // been destroyed, because NCCL waits for those graphs. Internal: the work did not end within
  // StreamGroup::abort_timeout. The device then cannot be used any more, and not even be destroyed: the
  // process must end without destructors. Another call returns the result of the first.
  virtual absl::Status Abort() = 0;

  virtual std::string Describe() const = 0;  // For logs: "NCCL 2.28.9 among 4 GPUs".
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_STREAM_COMMUNICATOR_H_
