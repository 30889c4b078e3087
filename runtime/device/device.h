// The contract that every compute back end fulfils (cpu/ on oneDNN; cuda/ on cuDNN and cuBLASLt), and that
// one conformance suite tests (tests/runtime/device/device_conformance.h). Asynchronous in form: work is put
// on a Stream and may not have happened when a call returns; a CPU fulfils that trivially, by having done it.
//
// A Device belongs to one rank, is made by that rank's thread and used by it alone. Primitives are made once
// per shape (that may be slow and allocate); running one allocates nothing.
//
// Matrices are row-major float32 and contiguous. Pointers are device memory unless called host.
#ifndef TETHYS_RUNTIME_DEVICE_DEVICE_H_
#define TETHYS_RUNTIME_DEVICE_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/optional.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/device/bfloat16.h"
#include "runtime/device/image_primitives.h"
#include "runtime/device/primitives.h"
#include "runtime/device/stream_communicator.h"

namespace tethys {

// An order of work. Work on one stream happens in the order it was put there.
class Stream {
 public:
  virtual ~Stream() = default;
  // Blocks until all work put here has happened. Returns the first error of that work.
  virtual absl::Status Synchronize() = 0;
};

// A point in a stream's order.
class Event {
 public:
  virtual ~Event() = default;
  virtual absl::Status Record(Stream& stream) = 0;
  // Work put on `stream` from now on happens after the recorded point.
  virtual absl::Status Wait(Stream& stream) const = 0;
  virtual absl::StatusOr<bool> Happened() const = 0;
};

// An event that knows when it happened. Recorded while a graph is captured, it happens in every launch.
class TimedEvent : public Event {
 public:
  // Time on the device since `earlier`, which is the same device's; both have happened.
  virtual absl::StatusOr<Nanoseconds> Since(const TimedEvent& earlier) const = 0;
};

// Work captured from streams, to be put on one again and again by a single launch.
class Graph {
 public:
  virtual ~Graph() = default;
  // The work happens in the order of `stream`, on what its memory holds then.
  virtual absl::Status Launch(Stream& stream) = 0;
};

// Device memory, 64-byte aligned, zeroed.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual void* data() = 0;
  virtual int64_t bytes() const = 0;
  float* floats() { return static_cast<float*>(data()); }
};

enum class MemoryKind {
  kDevice,
  kPinnedHost,  // Host memory the device copies from and to without staging.
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string Describe() const = 0;  // "cpu, oneDNN 2.6.3, AVX-512, 1 thread"
  // Primitives take host pointers as well as device pointers, so inputs need no copy.
  virtual bool reads_host_memory() const = 0;
  // Bytes of device memory that nobody uses yet; absent where nothing but the host's memory bounds it.
  virtual absl::StatusOr<absl::optional<int64_t>> FreeMemory() { return absl::optional<int64_t>(); }

  // Devices that sum among themselves: an identity that no other device of the cluster has, the id of a new
  // group (asked of its rank 0 and carried to all), and joining one, which blocks until all ranks have. Empty
  // and Unimplemented elsewhere.
  virtual std::string identity() const { return ""; }
  virtual absl::StatusOr<std::string> NewGroupId() {
    return absl::UnimplementedError("devices of this kind do not sum");
  }
  virtual absl::StatusOr<std::unique_ptr<StreamCommunicator>> JoinGroup(const StreamGroup&) {
    return absl::UnimplementedError("devices of this kind do not sum");
  }

  virtual absl::StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t bytes, MemoryKind kind) = 0;
  virtual absl::StatusOr<std::unique_ptr<Stream>> CreateStream() = 0;
  virtual absl::StatusOr<std::unique_ptr<Event>> CreateEvent() = 0;
  virtual absl::StatusOr<std::unique_ptr<TimedEvent>> CreateTimedEvent() = 0;
  // Pinned host memory is read or written when the stream comes to the copy, and must not change until then.
  // Any other is read before CopyToDevice returns, and written when the stream is synchronized at the latest.
  virtual absl::Status CopyToDevice(Stream& stream, void* device, const void* host, int64_t bytes) = 0;
  virtual absl::Status CopyToHost(Stream& stream, void* host, const void* device, int64_t bytes) = 0;
  // From device memory to device memory that does not overlap it.
  virtual absl::Status CopyOnDevice(Stream& stream, void* to, const void* from, int64_t bytes) = 0;

  // out[i] becomes the bfloat16 nearest to in[i], of two the even one: infinite beyond their range, NaN where
  // in[i] is. And back, exactly.
  virtual absl::Status RoundToBfloat16(Stream& stream, const float* in, Bfloat16* out, int64_t count) = 0;
  virtual absl::Status WidenBfloat16(Stream& stream, const Bfloat16* in, float* out, int64_t count) = 0;

  // What the calling thread does until EndRange has this name in a profiler's picture, and `number` to tell
  // it from its like. Ranges nest. Nothing where there is no such profiler.
  virtual void BeginRange(const char* /*name*/, int64_t /*number*/) {}
  virtual void EndRange() {}

  // What `work` puts on `stream`, as a graph: none of it happens now. Another stream takes part from when it
  // waits for an event of the capture, until `stream` waits for one of its own, which it must. `work` neither
  // allocates nor waits, copies to and from pinned memory only, and asks no event. The graph uses the memory,
  // primitives and communicators of `work`: they outlive it. Errors are those of `work`, or say what of it
  // cannot be captured.
  virtual bool captures() const { return false; }
  virtual absl::StatusOr<std::unique_ptr<Graph>> Capture(Stream& /*stream*/,
                                                         absl::FunctionRef<absl::Status()> /*work*/) {
    return absl::UnimplementedError("devices of this kind capture no graphs");
  }

  virtual absl::StatusOr<std::unique_ptr<DensePrimitive>> CreateDense(const DenseShape& shape) = 0;
  virtual absl::StatusOr<std::unique_ptr<ConvolutionPrimitive>> CreateConvolution(
      const ConvolutionShape& shape) = 0;
  virtual absl::StatusOr<std::unique_ptr<MaxPoolingPrimitive>> CreateMaxPooling(
      const MaxPoolingShape& shape) = 0;
  virtual absl::StatusOr<std::unique_ptr<SoftmaxCrossEntropyPrimitive>> CreateSoftmaxCrossEntropy(
      int64_t rows, int64_t classes) = 0;
  virtual absl::StatusOr<std::unique_ptr<InputConversionPrimitive>> CreateInputConversion(
      int64_t count, float mean, float deviation) = 0;
  virtual absl::StatusOr<std::unique_ptr<SgdPrimitive>> CreateSgd(std::vector<Segment> segments,
                                                                  float momentum) = 0;
  virtual absl::StatusOr<std::unique_ptr<UniformPrimitive>> CreateUniform(int64_t count, uint64_t seed,
                                                                          RandomPurpose purpose) = 0;
};

// The CPU back end. `threads` is for oneDNN's own parallelism, 1 or more.
absl::StatusOr<std::unique_ptr<Device>> CreateCpuDevice(int threads);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_DEVICE_H_
