// Formulas that depend on norms, each written once for all devices: clipping, and the optimizers whose steps
// a trust ratio scales. Included by the back ends, and by servers that clip (ps/parameter_store_norms.cc).
#ifndef TETHYS_RUNTIME_DEVICE_NORM_FORMULAS_H_
#define TETHYS_RUNTIME_DEVICE_NORM_FORMULAS_H_

#include "runtime/device/formula.h"
#include "runtime/device/update_rule.h"

namespace tethys {
namespace {

TETHYS_FORMULA float SquareRoot(float x) {
#ifdef __CUDA_ARCH__
  return sqrtf(x);
#else
  return __builtin_sqrtf(x);
#endif
}
TETHYS_FORMULA double SquareRoot(double x) {
#ifdef __CUDA_ARCH__
  return sqrt(x);
#else
  return __builtin_sqrt(x);
#endif
}

// The gradient scale that limits the norm of the scaled gradients. `sum_of_squares` is the sum of the squares
// of the unscaled gradients. If this sum is NaN, the result is `scale`, because a comparison with NaN is
// false.
TETHYS_FORMULA float ClippedScale(float scale, double sum_of_squares, double limit) {
  const double norm = scale * SquareRoot(sum_of_squares);
  return norm > limit ? static_cast<float>(scale * (limit / norm)) : scale;
}

// The optimizers with a trust ratio. The ratio depends on two norms over a whole region: the norm of the
// parameters w, and the norm of a vector whose elements Measured returns. ScaledStep returns the step of one
// element (update_formulas.h), scaled by the ratio, with weight decay.

// The formula of LARS: the ratio scales each gradient (with weight decay), and MomentumFormula computes the
// step from the scaled gradient.
template <class MomentumFormula>
struct Lars {
  static constexpr int kSlots = MomentumFormula::kSlots;
  TETHYS_FORMULA float Measured(const UpdateConstants&, const UpdateRates&, float, float g, float, float*) {
    return g;
  }
  TETHYS_FORMULA double Ratio(const UpdateConstants& constants, float decay, double w, double g) {
    return constants.trust * w / (g + decay * w + constants.epsilon);
  }
  TETHYS_FORMULA float ScaledStep(const UpdateConstants& constants, const UpdateRates& rates,
                                  const RegionFactors& region, float g, float w, float* slots) {
    const float scaled = region.trust_ratio * (g + region.weight_decay * w);
    return MomentumFormula::Step(constants, rates, scaled, slots);
  }
};

// The formula of LAMB. Its slots are the slots of Adam. Measured changes the slots, and computes the step
// from the changed slots. ScaledStep computes this step again.
template <class AdamFormula>
struct Lamb {
  static constexpr int kSlots = AdamFormula::kSlots;
  TETHYS_FORMULA float Measured(const UpdateConstants& constants, const UpdateRates& rates, float decay,
                                float g, float w, float* slots) {
    AdamFormula::Advance(constants, g, slots);
    return AdamFormula::StepOf(constants, rates, slots) + decay * w;
  }
  TETHYS_FORMULA double Ratio(const UpdateConstants&, float, double w, double step) { return w / step; }
  TETHYS_FORMULA float ScaledStep(const UpdateConstants& constants, const UpdateRates& rates,
                                  const RegionFactors& region, float, float w, float* slots) {
    return region.trust_ratio * (AdamFormula::StepOf(constants, rates, slots) + region.weight_decay * w);
  }
};

template <class Formula>
inline constexpr bool kHasTrustRatio = false;
template <class MomentumFormula>
inline constexpr bool kHasTrustRatio<Lars<MomentumFormula>> = true;
template <class AdamFormula>
inline constexpr bool kHasTrustRatio<Lamb<AdamFormula>> = true;

// The number of slots that Measured changes; the update changes the other slots.
template <class Formula>
inline constexpr int kMeasuredSlots = 0;
template <class AdamFormula>
inline constexpr int kMeasuredSlots<Lamb<AdamFormula>> = Lamb<AdamFormula>::kSlots;
template <class Formula>
inline constexpr int kUpdatedSlots = Formula::kSlots - kMeasuredSlots<Formula>;

// The trust ratio; 1 if a norm is 0. The ratio is never infinite, so that the ratio times 0 is 0.
template <class Formula>
TETHYS_FORMULA float TrustRatio(const UpdateConstants& constants, float decay, const RegionSquares& squares) {
  if (!(squares.parameters > 0 && squares.measured > 0)) return 1;
  constexpr float kLargest = 3.402823466e+38f;
  const double ratio =
      Formula::Ratio(constants, decay, SquareRoot(squares.parameters), SquareRoot(squares.measured));
  return ratio < double{kLargest} ? static_cast<float>(ratio) : kLargest;
}

}  // namespace
}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_NORM_FORMULAS_H_
