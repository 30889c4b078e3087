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

#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/tensor/variable.h"

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

// y = activation(x W + b) for a fixed number of rows, and its derivatives.
//   x [rows, in], weights [in, out], bias [out], y [rows, out]
struct DenseShape {
  int64_t rows = 0;
  int64_t in = 0;
  int64_t out = 0;
  bool relu = false;
};

class DensePrimitive {
 public:
  virtual ~DensePrimitive() = default;
  virtual absl::Status Forward(Stream& stream, const float* x, const float* weights, const float* bias,
                               float* y) = 0;
  // dy becomes the gradient before the activation, in place: dy *= (y > 0) where relu. Then
  // dweights = x^T dy, dbias = column sums of dy (both overwritten) and, unless dx is null, dx = dy W^T.
  virtual absl::Status Backward(Stream& stream, const float* x, const float* weights, const float* y,
                                float* dy, float* dx, float* dweights, float* dbias) = 0;
  // Which algorithm was chosen for each product, for logs: "forward sgemm, data matmul, weights matmul".
  virtual std::string Describe() const = 0;
};

// Softmax cross-entropy from logits [rows, classes], a weight per row.
struct LossResult {  // Sums over rows, weighted; lies in device memory.
  double loss_sum = 0;
  double correct = 0;  // Weight of rows whose largest logit (the first, on a tie) is the label's.
  double weight_sum = 0;
};

class SoftmaxCrossEntropyPrimitive {
 public:
  virtual ~SoftmaxCrossEntropyPrimitive() = default;
  // dlogits[i] = weight_i (softmax(logits_i) - onehot(label_i)); null: evaluation only. Rows of weight 0 give
  // zero gradients whatever they hold. labels in [0, classes).
  virtual absl::Status Run(Stream& stream, const float* logits, const int32_t* labels, const float* weights,
                           float* dlogits, LossResult* result) = 0;
};

// Bytes to standardised floats: out = (in / 255 - mean) / deviation, `count` elements.
class InputConversionPrimitive {
 public:
  virtual ~InputConversionPrimitive() = default;
  virtual absl::Status Run(Stream& stream, const uint8_t* in, float* out) = 0;
};

// Part of an arena under one set of hyper-parameters.
struct Segment {
  Range range;
  float weight_decay = 0;
};

// SGD with momentum over segments: g = gradient_sum * scale + weight_decay * w; v = momentum v + g; w -= lr
// v.
struct SgdStep {
  float learning_rate = 0;
  float gradient_scale = 1;
  Range part = kWholeArena;  // What lies outside stays as it is.
  bool check_finite = true;  // False where the caller has looked at every gradient: `finite` is then 1.
};
class SgdPrimitive {
 public:
  virtual ~SgdPrimitive() = default;
  // Writes 1 to *finite, or 0 (device memory) and then changes neither parameters nor velocity. `velocity` is
  // null where momentum is 0.
  virtual absl::Status Run(Stream& stream, const SgdStep& step, float* parameters, const float* gradient_sums,
                           float* velocity, int32_t* finite) = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string Describe() const = 0;  // "cpu, oneDNN 2.6.3, AVX-512, 1 thread"
  // Primitives take host pointers as well as device pointers, so inputs need no copy.
  virtual bool reads_host_memory() const = 0;

  virtual absl::StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t bytes, MemoryKind kind) = 0;
  virtual absl::StatusOr<std::unique_ptr<Stream>> CreateStream() = 0;
  virtual absl::StatusOr<std::unique_ptr<Event>> CreateEvent() = 0;
  virtual absl::Status CopyToDevice(Stream& stream, void* device, const void* host, int64_t bytes) = 0;
  virtual absl::Status CopyToHost(Stream& stream, void* host, const void* device, int64_t bytes) = 0;

  virtual absl::StatusOr<std::unique_ptr<DensePrimitive>> CreateDense(const DenseShape& shape) = 0;
  virtual absl::StatusOr<std::unique_ptr<SoftmaxCrossEntropyPrimitive>> CreateSoftmaxCrossEntropy(
      int64_t rows, int64_t classes) = 0;
  virtual absl::StatusOr<std::unique_ptr<InputConversionPrimitive>> CreateInputConversion(
      int64_t count, float mean, float deviation) = 0;
  virtual absl::StatusOr<std::unique_ptr<SgdPrimitive>> CreateSgd(std::vector<Segment> segments,
                                                                  float momentum) = 0;
};

// The CPU back end. `threads` is for oneDNN's own parallelism, 1 or more.
absl::StatusOr<std::unique_ptr<Device>> CreateCpuDevice(int threads);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_DEVICE_H_
