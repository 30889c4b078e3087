// Primitives that work element by element on the outputs of layers. Contract: device.h.
#ifndef TETHYS_RUNTIME_DEVICE_ELEMENTWISE_PRIMITIVES_H_
#define TETHYS_RUNTIME_DEVICE_ELEMENTWISE_PRIMITIVES_H_

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/device/axis.h"
#include "runtime/device/element_type.h"

namespace tethys {

class Stream;

// InvalidArgument: a negative number of elements.
inline absl::Status CheckCount(int64_t count) {
  if (count >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("an array has ", count, " elements; it needs 0 or more"));
}

struct SumShape {
  using Primitive = class SumPrimitive;
  int64_t count = 0;
  bool relu = false;
  // Type of the three arrays: float32, or the device's activation type.
  ElementType type = ElementType::kFloat32;
};

inline absl::Status CheckShape(const SumShape& shape) { return CheckCount(shape.count); }

// InvalidArgument: the device has no activations of the type. Checked by the devices.
inline absl::Status CheckType(const SumShape& shape, ElementType activation_type) {
  if (shape.type == ElementType::kFloat32 || shape.type == activation_type) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "this device does not support activations in bfloat16, so it cannot sum them");
}

// sum[i] = a[i] + b[i], or, with relu, max(a[i] + b[i], 0), where NaN stays NaN. `sum` may be `a` or `b`. All
// three arrays have the shape's type.
class SumPrimitive {
 public:
  virtual ~SumPrimitive() = default;
  virtual absl::Status Run(Stream& stream, const void* a, const void* b, void* sum) = 0;
};

// The shape of a bias: one value for each column of a matrix [rows, columns], which for images is one value
// for each channel.
struct BiasShape {
  using Primitive = class BiasPrimitive;
  int64_t rows = 0;
  int64_t columns = 0;
};

inline absl::Status CheckShape(const BiasShape& shape) {
  TETHYS_RETURN_IF_ERROR(CheckAxis("rows of a bias", shape.rows));
  return CheckAxis("columns of a bias", shape.columns);
}

class BiasPrimitive {
 public:
  virtual ~BiasPrimitive() = default;
  virtual absl::Status Forward(Stream& stream, const float* bias, void* y) = 0;  // y += bias.
  // dbias = column sums of dy, overwritten.
  virtual absl::Status Backward(Stream& stream, const void* dy, float* dbias) = 0;
};

// The order of the functions is also the order of the tables of loops and kernels.
enum class ActivationFunction { kRelu, kRelu6, kSigmoid, kTanh };
inline constexpr int kActivationFunctions = 4;

struct ActivationShape {
  using Primitive = class ActivationPrimitive;
  int64_t count = 0;
  ActivationFunction function = ActivationFunction::kRelu;
};

inline absl::Status CheckShape(const ActivationShape& shape) { return CheckCount(shape.count); }

// y = f(x), where f(x) is max(x, 0) for relu, min(max(x, 0), 6) for relu6, 1 / (1 + exp(-x)) for the sigmoid,
// or tanh(x). NaN stays NaN.
class ActivationPrimitive {
 public:
  virtual ~ActivationPrimitive() = default;
  // `y` may be `x`.
  virtual absl::Status Forward(Stream& stream, const void* x, void* y) = 0;
  // dx = dy f'(x), computed from the output y. Where f has a bend (relu and relu6 at 0, relu6 also at 6), f'
  // is taken as 0. `dx` may be `dy`.
  virtual absl::Status Backward(Stream& stream, const void* y, const void* dy, void* dx) = 0;
};

// Sets elements to 0, each with probability `rate`, and divides the other elements by 1 - rate.
struct DropoutShape {
  using Primitive = class DropoutPrimitive;
  int64_t rows = 0;
  int64_t elements = 0;  // Elements of one row.
  float rate = 0.5f;
  uint64_t seed = 0;
  uint64_t layer = 0;  // Number of the layer; layers with different numbers drop different elements.
};

// InvalidArgument: negative sizes, more than 2^47 elements, or a rate outside [0, 1).
inline absl::Status CheckShape(const DropoutShape& shape) {
  constexpr int64_t kMostElements = int64_t{1} << 47;
  const bool sizes_fit = shape.rows >= 0 && shape.elements >= 0 &&
                         (shape.rows == 0 || shape.elements <= kMostElements / shape.rows);
  if (sizes_fit && shape.rate >= 0 && shape.rate < 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "dropout is not possible for ", shape.rows, " x ", shape.elements, " elements at a rate of ",
      shape.rate, "; the rate must be in [0, 1), and the number of elements 0 to ", kMostElements));
}

class DropoutPrimitive {
 public:
  virtual ~DropoutPrimitive() = default;
  // out = in * (kept ? 1 / (1 - rate) : 0), for outputs and, likewise, for gradients. `out` may be `in`.
  // For element e of row r, let i = (*first_row + r) * elements + e, which must be below 2^64. The element is
  // kept if the number with index i of RandomStream(seed, kDropout, layer), converted by ToUnitFloat, is at
  // least `rate`. So the choice depends on the row's number in the job, and never on the batch or the device.
  // `first_row` is in device memory.
  virtual absl::Status Run(Stream& stream, const uint64_t* first_row, const void* in, void* out) = 0;
};

// The shapes of this header, for the table in primitive_factory.h.
#define TETHYS_ELEMENTWISE_PRIMITIVES(ROW) \
  ROW(SumShape)                            \
  ROW(BiasShape)                           \
  ROW(ActivationShape)                     \
  ROW(DropoutShape)

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_ELEMENTWISE_PRIMITIVES_H_
