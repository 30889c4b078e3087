// Primitives that work element by element on the outputs of layers. Contract: device.h.
#ifndef TETHYS_RUNTIME_DEVICE_ELEMENTWISE_PRIMITIVES_H_
#define TETHYS_RUNTIME_DEVICE_ELEMENTWISE_PRIMITIVES_H_

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace tethys {

class Stream;

// InvalidArgument: a negative number of elements.
inline absl::Status CheckCount(int64_t count) {
  if (count >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("an array has ", count, " elements; it needs 0 or more"));
}

// sum[i] = a[i] + b[i]. `sum` may be `a` or `b`.
class SumPrimitive {
 public:
  virtual ~SumPrimitive() = default;
  virtual absl::Status Run(Stream& stream, const float* a, const float* b, float* sum) = 0;
};

// Tables of loops and kernels are in this order.
enum class ActivationFunction { kRelu, kRelu6, kSigmoid, kTanh };
inline constexpr int kActivationFunctions = 4;

// y = f(x): max(x, 0); min(max(x, 0), 6); 1 / (1 + exp(-x)); tanh(x). NaN stays NaN.
class ActivationPrimitive {
 public:
  virtual ~ActivationPrimitive() = default;
  // `y` may be `x`.
  virtual absl::Status Forward(Stream& stream, const float* x, float* y) = 0;
  // dx = dy f'(x), computed from the output y. The derivative of a bend (0, and 6 of relu6) is 0. `dx` may be
  // `dy`.
  virtual absl::Status Backward(Stream& stream, const float* y, const float* dy, float* dx) = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_ELEMENTWISE_PRIMITIVES_H_
