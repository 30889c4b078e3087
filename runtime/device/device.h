// The contract of every compute back end (cpu/ on oneDNN; cuda/ on cuDNN and cuBLASLt), tested by one
// conformance suite (tests/runtime/device/device_conformance.h). The interface is asynchronous: a call
// enqueues work on a Stream and may return before the work has run. On a CPU the work runs before the call
// returns.
//
// A Device belongs to one rank; that rank's thread creates it, and no other thread uses it. Primitives are
// created once per shape (which may be slow and allocate); running a primitive allocates nothing. Primitives
// of one device share memory that they need only while they run, so all of them run on one stream.
//
// Matrices are row-major and contiguous. Activations (values that layers hand on, and the gradients of these
// values) have the device's activation_type(); pointers to them are void*. Everything else is float32:
// parameters, their gradients, statistics, sums. Primitives compute in float32 and round what they write.
// Pointers point to device memory unless they are named `host`.
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
#include "runtime/device/element_type.h"
#include "runtime/device/primitive_factory.h"
#include "runtime/device/stream_communicator.h"

namespace tethys {

// A queue of work. Work on one stream runs in the order in which it was enqueued.
class Stream {
 public:
  virtual ~Stream() = default;
  // Blocks until all enqueued work has run. Returns the first error of that work.
  virtual absl::Status Synchronize() = 0;
};

// A point in the order of a stream's work.
class Event {
 public:
  virtual ~Event() = default;
  virtual absl::Status Record(Stream& stream) = 0;
  // Work enqueued on `stream` from now on runs after the recorded point.
  virtual absl::Status Wait(Stream& stream) const = 0;
  virtual absl::StatusOr<bool> Happened() const = 0;
};

// An event that records its time. If the event is recorded while a graph is captured, every launch of that
// graph records the event again.
class TimedEvent : public Event {
 public:
  // The time on the device from `earlier` to this event. Requires: both events belong to the same device and
  // have happened.
  virtual absl::StatusOr<Nanoseconds> Since(const TimedEvent& earlier) const = 0;
};

// Work captured from streams; each launch enqueues all of the work again.
class Graph {
 public:
  virtual ~Graph() = default;
  // Enqueues the work on `stream`. The work reads memory when it runs, not when it was captured.
  virtual absl::Status Launch(Stream& stream) = 0;
};

// Device memory or pinned host memory, 64-byte aligned, zeroed at first.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual void* data() = 0;
  virtual int64_t bytes() const = 0;
  float* floats() { return static_cast<float*>(data()); }
};

enum class MemoryKind {
  kDevice,
  kPinnedHost,  // Host memory that the device copies from and to without staging.
};

// Row r of the matrix begins at to + r * to_width and at from + r * from_width. Columns and widths are in
// bytes.
struct ColumnCopy {
  int64_t rows = 0;
  int64_t columns = 0;
  void* to = nullptr;
  int64_t to_width = 0;
  const void* from = nullptr;
  int64_t from_width = 0;
};

class Device : public PrimitiveFactory {
 public:
  virtual std::string Describe() const = 0;  // For logs: "cpu, oneDNN 2.6.3, AVX-512, 1 thread".
  // True if primitives take host pointers as well as device pointers, so that inputs need no copy.
  virtual bool reads_host_memory() const = 0;
  // The type of the elements of activations, fixed when the device is created.
  virtual ElementType activation_type() const { return ElementType::kFloat32; }
  // Free device memory in bytes; absent if device memory is host memory.
  virtual absl::StatusOr<absl::optional<int64_t>> FreeMemory() { return absl::optional<int64_t>(); }
  // Gives freed memory that the device keeps for later buffers back to the system, so that FreeMemory counts
  // that memory as free. Waits for the work that uses the memory.
  virtual void ReleaseUnused() {}
  // Keeps one thread of the device busy for `time`, and returns the longest time for which that thread did
  // not run. On a GPU a pause is above some 0.1 ms only if another process got the GPU meanwhile. Absent if
  // the device cannot measure the pause. Blocks until the stream has run everything.
  virtual absl::StatusOr<absl::optional<Nanoseconds>> LongestPause(Stream& /*stream*/, Nanoseconds /*time*/) {
    return absl::optional<Nanoseconds>();
  }

  // The next three functions are for devices that can all-reduce among themselves. identity() is unique in
  // the cluster. Rank 0 calls NewGroupId and sends the id to all ranks; JoinGroup blocks until all ranks have
  // joined. Other devices return an empty identity and Unimplemented.
  virtual std::string identity() const { return ""; }
  virtual absl::StatusOr<std::string> NewGroupId() {
    return absl::UnimplementedError("devices of this kind have no all-reduce");
  }
  virtual absl::StatusOr<std::unique_ptr<StreamCommunicator>> JoinGroup(const StreamGroup&) {
    return absl::UnimplementedError("devices of this kind have no all-reduce");
  }

  virtual absl::StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t bytes, MemoryKind kind) = 0;
  virtual absl::StatusOr<std::unique_ptr<Stream>> CreateStream() = 0;
  virtual absl::StatusOr<std::unique_ptr<Event>> CreateEvent() = 0;
  virtual absl::StatusOr<std::unique_ptr<TimedEvent>> CreateTimedEvent() = 0;
  // Pinned host memory is read or written when the stream reaches the copy, and must not change until then.
  // Other host memory is read before CopyToDevice returns, and written by the time the stream is
  // synchronized.
  virtual absl::Status CopyToDevice(Stream& stream, void* device, const void* host, int64_t bytes) = 0;
  virtual absl::Status CopyToHost(Stream& stream, void* host, const void* device, int64_t bytes) = 0;
  // Copies device memory to device memory. Source and destination must not overlap.
  virtual absl::Status CopyOnDevice(Stream& stream, void* to, const void* from, int64_t bytes) = 0;
  // Copies a matrix [rows, columns] that is part of a wider matrix at the source and at the destination.
  virtual absl::Status CopyColumns(Stream& stream, const ColumnCopy& copy) = 0;

  // RoundToBfloat16 rounds in[i] to the nearest bfloat16, ties to even; values beyond the range become
  // infinite, NaN stays NaN. WidenBfloat16 converts back exactly.
  virtual absl::Status RoundToBfloat16(Stream& stream, const float* in, Bfloat16* out, int64_t count) = 0;
  virtual absl::Status WidenBfloat16(Stream& stream, const Bfloat16* in, float* out, int64_t count) = 0;

  // Names the calling thread's work in a profiler's timeline, from this call until EndRange. `number`
  // distinguishes ranges of the same name. Ranges nest. No-op without a profiler.
  virtual void BeginRange(const char* /*name*/, int64_t /*number*/) {}
  virtual void EndRange() {}

  // Capture records what `work` enqueues on `stream` as a graph, without running it. Another stream joins the
  // capture when it waits for an event of the capture; `stream` must later wait for an event of that other
  // stream. `work` must not allocate memory, wait for the device or query events. Its copies between host and
  // device use pinned memory only. Memory, primitives and communicators that `work` uses must outlive the
  // graph. Returns the error of `work`, or an error that says what cannot be captured.
  virtual bool captures() const { return false; }
  virtual absl::StatusOr<std::unique_ptr<Graph>> Capture(Stream& /*stream*/,
                                                         absl::FunctionRef<absl::Status()> /*work*/) {
    return absl::UnimplementedError("devices of this kind capture no graphs");
  }
};

// The CPU back end. `threads`, at least 1, is the number of threads oneDNN may use.
absl::StatusOr<std::unique_ptr<Device>> CreateCpuDevice(int threads);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_DEVICE_H_
