// All-reduce as work on a device's stream (NCCL), for ranks that each have a device of their own. As a
// Communicator (communicator.h), it is made for one group and generation, and broken for good once an
// operation failed. Used by the device's thread; Abort by any.
#ifndef TETHYS_COLLECTIVES_STREAM_COMMUNICATOR_H_
#define TETHYS_COLLECTIVES_STREAM_COMMUNICATOR_H_

#include <cstdint>
#include <string>

#include "runtime/base/status.h"
#include "runtime/device/device.h"

namespace tethys {

class StreamCommunicator {
 public:
  virtual ~StreamCommunicator() = default;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  // Puts on the stream: data[i], device memory, becomes the sum over ranks, the same bits on all. Every rank
  // puts the same counts in the same order. Does not wait for others.
  virtual absl::Status AllReduce(Stream& stream, float* data, int64_t count) = 0;

  // The first error of work put on streams, without waiting for it.
  virtual absl::Status Check() = 0;

  // Ends work under way, here; what it has written is then undefined.
  virtual void Abort() = 0;

  virtual std::string Describe() const = 0;  // "NCCL 2.28.9 among 4 GPUs"
};

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_STREAM_COMMUNICATOR_H_
