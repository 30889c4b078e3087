// The optimizers' formulas, each written once for all devices: the CPU's loops (cpu/kernels.cc) and the GPU's
// kernels (cuda/update_kernels.cu) are templates over them. Included by the back ends only.
//
// A formula computes the step of one element from the element's mean gradient g and its slots, and changes
// the slots. The device then subtracts learning_rate * step from the parameter. Sources and notation:
// job.proto.
#ifndef TETHYS_RUNTIME_DEVICE_UPDATE_FORMULAS_H_
#define TETHYS_RUNTIME_DEVICE_UPDATE_FORMULAS_H_

#include "runtime/device/formula.h"
#include "runtime/device/norm_formulas.h"
#include "runtime/device/update_rule.h"

namespace tethys {
namespace {

// The denominator of a step. One of the two epsilons is 0, because an optimizer adds its epsilon either
// inside or outside the root.
TETHYS_FORMULA float Root(const UpdateConstants& constants, float squares) {
  return SquareRoot(squares + constants.epsilon_inside_root) + constants.epsilon;
}

struct Sgd {
  static constexpr int kSlots = 0;
  TETHYS_FORMULA float Step(const UpdateConstants&, const UpdateRates&, float g, float*) { return g; }
};

struct Momentum {
  static constexpr int kSlots = 1;
  TETHYS_FORMULA float Step(const UpdateConstants& constants, const UpdateRates&, float g, float* slots) {
    return slots[0] = constants.momentum * slots[0] + g;
  }
};

struct Nesterov {
  static constexpr int kSlots = 1;
  TETHYS_FORMULA float Step(const UpdateConstants& constants, const UpdateRates&, float g, float* slots) {
    slots[0] = constants.momentum * slots[0] + g;
    return g + constants.momentum * slots[0];
  }
};

// Slots: the running mean of gradients, and the running mean of their squares.
struct Adam {
  static constexpr int kSlots = 2;
  TETHYS_FORMULA float Step(const UpdateConstants& constants, const UpdateRates& rates, float g,
                            float* slots) {
    Advance(constants, g, slots);
    return StepOf(constants, rates, slots);
  }
  TETHYS_FORMULA void Advance(const UpdateConstants& constants, float g, float* slots) {
    slots[0] = constants.mean_kept * slots[0] + constants.mean_added * g;
    slots[1] = constants.square_kept * slots[1] + constants.square_added * (g * g);
  }
  TETHYS_FORMULA float StepOf(const UpdateConstants& constants, const UpdateRates& rates,
                              const float* slots) {
    return rates.first_correction * slots[0] /
           (rates.root_square_correction * SquareRoot(slots[1]) + constants.epsilon);
  }
};

// Slots: the running mean of squared gradients; then the running mean of gradients, if centered; then the
// momentum, if there is one.
template <bool kCentered, bool kMomentum>
struct Rmsprop {
  static constexpr int kSlots = 1 + kCentered + kMomentum;
  TETHYS_FORMULA float Step(const UpdateConstants& constants, const UpdateRates&, float g, float* slots) {
    const float kept = constants.square_kept, added = constants.square_added;
    slots[0] = kept * slots[0] + added * (g * g);
    float squares = slots[0];
    if constexpr (kCentered) {
      slots[1] = kept * slots[1] + added * g;
      const float variance = squares - slots[1] * slots[1];
      // Rounding can make the difference of the means negative; the result is then 0.
      squares = variance > 0 ? variance : 0;
    }
    const float step = g / Root(constants, squares);
    if constexpr (!kMomentum) return step;
    float& momentum = slots[kSlots - 1];
    return momentum = constants.momentum * momentum + step;
  }
};

// Slot: the sum of squared gradients.
struct Adagrad {
  static constexpr int kSlots = 1;
  TETHYS_FORMULA float Step(const UpdateConstants& constants, const UpdateRates&, float g, float* slots) {
    slots[0] += g * g;
    return g / Root(constants, slots[0]);
  }
};

template <class... Formulas>
struct FormulaList {
  static constexpr int kLength = sizeof...(Formulas);
};
using UpdateFormulaList = FormulaList<Sgd, Momentum, Nesterov, Adam, Rmsprop<false, false>,
                                      Rmsprop<false, true>, Rmsprop<true, false>, Rmsprop<true, true>,
                                      Adagrad, Lars<Momentum>, Lars<Nesterov>, Lamb<Adam>>;
static_assert(UpdateFormulaList::kLength == kUpdateFormulas);

// One element's update, weight decay included. `loss` is learning rate * decay. Subtracting loss * w is more
// exact than multiplying w by 1 - loss, because 1 - loss is rounded in the same direction in every update.
template <class Formula, bool kDecoupled>
TETHYS_FORMULA void UpdateElement(const UpdateConstants& constants, const UpdateRates& rates,
                                  const RegionFactors& region, float loss, float gradient_sum, float& w,
                                  float* slots) {
  float g = gradient_sum * rates.gradient_scale;
  if constexpr (kHasTrustRatio<Formula>) {
    w -= rates.learning_rate * Formula::ScaledStep(constants, rates, region, g, w, slots);
  } else {
    if constexpr (kDecoupled) {
      w -= loss * w;
    } else {
      g += region.weight_decay * w;
    }
    w -= rates.learning_rate * Formula::Step(constants, rates, g, slots);
  }
}

}  // namespace
}  // namespace tethys

#undef TETHYS_FORMULA

#endif  // TETHYS_RUNTIME_DEVICE_UPDATE_FORMULAS_H_
