// The operations of a Device, one class each, for a fixed shape. Contract: device.h.
#ifndef TETHYS_RUNTIME_DEVICE_PRIMITIVES_H_
#define TETHYS_RUNTIME_DEVICE_PRIMITIVES_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/device/axis.h"
#include "runtime/device/update_rule.h"
#include "runtime/tensor/variable.h"

namespace tethys {

class Stream;

// y = activation(x W + b) for a fixed number of rows, and its derivatives.
//   x [rows, in], weights [in, out], bias [out], y [rows, out]
struct DenseShape {
  using Primitive = class DensePrimitive;
  int64_t rows = 0;
  int64_t in = 0;
  int64_t out = 0;
  bool relu = false;
};

inline absl::Status CheckShape(const DenseShape& shape) {
  TETHYS_RETURN_IF_ERROR(CheckAxis("rows of a dense layer", shape.rows));
  TETHYS_RETURN_IF_ERROR(CheckAxis("inputs of a dense layer", shape.in));
  return CheckAxis("outputs of a dense layer", shape.out);
}

class DensePrimitive {
 public:
  virtual ~DensePrimitive() = default;
  virtual absl::Status Forward(Stream& stream, const void* x, const float* weights, const float* bias,
                               void* y) = 0;
  // Turns dy into the gradient before the activation, in place: with relu, dy *= (y > 0). Then
  // dweights = x^T dy, dbias = column sums of dy (both overwritten) and, unless dx is null, dx = dy W^T.
  virtual absl::Status Backward(Stream& stream, const void* x, const float* weights, const void* y, void* dy,
                                void* dx, float* dweights, float* dbias) = 0;
  // For logs, the algorithm chosen for each product: "forward sgemm, data matmul, weights matmul".
  virtual std::string Describe() const = 0;
};

// Converts `count` values of the scaling's type to standardised activations: out = (in / 255 - mean) /
// deviation for bytes, (in - mean) / deviation for floats. Value i has channel i mod the number of channels,
// and is converted with that channel's mean and deviation.
class InputConversionPrimitive {
 public:
  virtual ~InputConversionPrimitive() = default;
  virtual absl::Status Run(Stream& stream, const void* in, void* out) = 0;
};

// A range of an arena (tensor/variable.h) whose variables have the same hyper-parameters.
struct UpdateRegion {
  Range range;
  float weight_decay = 0;
  // True: the trust ratio of the region scales the step, if the formula has one. False: the ratio is 1.
  bool adapted = true;
};

// InvalidArgument: an unknown formula, momentum or a decay outside [0, 1), an epsilon below 0, or an epsilon
// of 0 for a formula that divides by a root or a norm; for a formula with a trust ratio, also decoupled
// decay, or a factor of LARS that is not above 0.
inline absl::Status CheckRule(const UpdateRule& rule) {
  const auto formula = static_cast<int>(rule.formula);
  if (formula < 0 || formula >= kUpdateFormulas) {
    return absl::InvalidArgumentError(absl::StrCat("there is no update formula ", formula));
  }
  for (const float kept : {rule.constants.momentum, rule.constants.mean_kept, rule.constants.square_kept}) {
    if (kept >= 0 && kept < 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("an optimizer's momentum or decay is ", kept, "; it must be in [0, 1)"));
  }
  for (const float epsilon : {rule.constants.epsilon, rule.constants.epsilon_inside_root}) {
    if (epsilon >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("an optimizer's epsilon is ", epsilon, "; it must not be negative"));
  }
  const bool divides = rule.formula != UpdateFormula::kSgd && rule.formula != UpdateFormula::kMomentum &&
                       rule.formula != UpdateFormula::kNesterov;
  if (divides && rule.constants.epsilon + rule.constants.epsilon_inside_root == 0) {
    return absl::InvalidArgumentError("an optimizer's epsilon is 0; it must be above 0");
  }
  if (HasTrustRatio(rule.formula) && rule.decoupled_decay) {
    return absl::InvalidArgumentError(
        "an optimizer with a trust ratio has decoupled weight decay; the trust ratio must scale the decay, "
        "too");
  }
  const bool lars = HasTrustRatio(rule.formula) && rule.formula != UpdateFormula::kLamb;
  if (lars && !(rule.constants.trust > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("LARS's trust is ", rule.constants.trust, "; it must be above 0"));
  }
  return absl::OkStatus();
}

// One update of an optimizer over all its regions.
struct UpdateStep {
  // Rates in device memory, so that a captured update can run with new rates.
  const UpdateRates* rates = nullptr;
  Range part = kWholeArena;  // Elements outside this range are not changed.
  bool check_finite = true;  // False if the caller has already checked that every gradient is finite.
  // If not empty: for each region, the sums of squares over the whole variable that the region is a part of,
  // as Measure writes them; in host memory.
  absl::Span<const RegionSquares> squares = {};
};
class UpdatePrimitive {
 public:
  virtual ~UpdatePrimitive() = default;
  // Updates parameters and slots. `slots` has one arena for each slot that the formula keeps, laid out like
  // the parameters' arena. Sets *bad (device memory, 0 at first) to 1 if a gradient of the part is not
  // finite, or if the rates refuse the update. While *bad is 1, even from an earlier run, parameters and
  // slots do not change. So a caller that checks *bad late finds the parameters and slots as they were before
  // the first non-finite gradient. Formulas with a trust ratio require the whole arena as the part; their
  // norms are sums in double precision, in an order that depends on the regions only.
  virtual absl::Status Run(Stream& stream, const UpdateStep& step, float* parameters,
                           const float* gradient_sums, absl::Span<float* const> slots, int32_t* bad) = 0;

  // The first half of Run, for a rule with a trust ratio whose regions are parts of variables. Writes the
  // sums of squares of each region, in the order in which the regions begin, and changes the slots that
  // Measured of the formula changes (norm_formulas.h). The caller adds up the sums of the regions of each
  // variable, and then calls Run with the same rates. In step.squares, each region has the sums of its whole
  // variable, in the same order of regions. The caller may call Run for several parts, which must together
  // cover each element once. Requires that all gradients are finite. Unimplemented: the device is of a kind
  // that no server uses.
  virtual absl::Status Measure(Stream&, const UpdateStep&, const float* /*parameters*/,
                               const float* /*gradient_sums*/, absl::Span<float* const> /*slots*/,
                               absl::Span<RegionSquares> /*squares*/) {
    return absl::UnimplementedError(
        "this device cannot compute the sums of squares that a trust ratio over parts of variables needs");
  }
};

// Clipping by global norm: the norm of the mean gradients of all regions together.
class ClipPrimitive {
 public:
  virtual ~ClipPrimitive() = default;
  // If the norm of gradient_sums * rates->gradient_scale is above the limit, multiplies rates->gradient_scale
  // (device memory) by limit / norm. Squares are added in double precision, in an order that depends on the
  // regions only. A norm that is not a number changes nothing.
  virtual absl::Status Run(Stream& stream, const float* gradient_sums, UpdateRates* rates) = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_PRIMITIVES_H_
