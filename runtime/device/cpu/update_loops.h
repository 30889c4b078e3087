// The optimizers' loops of the CPU back end, as templates over the formulas. They are a part of kernels.cc,
// compiled once per instruction set. Included by kernels.cc only. The loops are in an anonymous namespace, so
// that the linker does not replace a loop by the same loop for another instruction set.
#ifndef TETHYS_RUNTIME_DEVICE_CPU_UPDATE_LOOPS_H_
#define TETHYS_RUNTIME_DEVICE_CPU_UPDATE_LOOPS_H_

#include "runtime/device/cpu/kernels.h"
#include "runtime/device/update_formulas.h"

namespace tethys::cpu {
namespace {

// Each slot has a __restrict pointer of its own, so that the compiler knows that the slots do not overlap.
template <class Formula, bool kDecoupled>
void Update(int64_t count, const UpdateConstants& given_constants, const UpdateRates& given_rates,
            const RegionFactors& given_region, float* __restrict w, const float* __restrict gradient_sums,
            float* const* slots) {
  constexpr int kSlots = Formula::kSlots, kChanged = kUpdatedSlots<Formula>;
  const UpdateConstants constants = given_constants;
  const UpdateRates rates = given_rates;
  const RegionFactors region = given_region;
  const float loss = rates.learning_rate * region.weight_decay;
  float* __restrict first = kSlots > 0 ? slots[0] : nullptr;
  float* __restrict second = kSlots > 1 ? slots[1] : nullptr;
  float* __restrict third = kSlots > 2 ? slots[2] : nullptr;
  for (int64_t i = 0; i < count; ++i) {
    float values[kMostSlots];
    if constexpr (kSlots > 0) values[0] = first[i];
    if constexpr (kSlots > 1) values[1] = second[i];
    if constexpr (kSlots > 2) values[2] = third[i];
    float parameter = w[i];
    UpdateElement<Formula, kDecoupled>(constants, rates, region, loss, gradient_sums[i], parameter, values);
    w[i] = parameter;
    if constexpr (kChanged > 0) first[i] = values[0];
    if constexpr (kChanged > 1) second[i] = values[1];
    if constexpr (kChanged > 2) third[i] = values[2];
  }
}

template <class Formula>
void Measure(int64_t count, const UpdateConstants& given_constants, const UpdateRates& given_rates,
             float decay, const float* __restrict w, const float* __restrict gradient_sums,
             float* const* slots, float* __restrict measured) {
  constexpr int kChanged = kMeasuredSlots<Formula>;
  const UpdateConstants constants = given_constants;
  const UpdateRates rates = given_rates;
  float* __restrict first = kChanged > 0 ? slots[0] : nullptr;
  float* __restrict second = kChanged > 1 ? slots[1] : nullptr;
  for (int64_t i = 0; i < count; ++i) {
    float values[kMostSlots];
    if constexpr (kChanged > 0) values[0] = first[i];
    if constexpr (kChanged > 1) values[1] = second[i];
    const float g = gradient_sums[i] * rates.gradient_scale;
    measured[i] = Formula::Measured(constants, rates, decay, g, w[i], values);
    if constexpr (kChanged > 0) first[i] = values[0];
    if constexpr (kChanged > 1) second[i] = values[1];
  }
}

template <class Formula>
constexpr UpdateLoops UpdateLoopsOf() {
  UpdateLoops loops = {Formula::kSlots, Update<Formula, false>, nullptr, nullptr, nullptr};
  if constexpr (kHasTrustRatio<Formula>) {
    loops.measure = Measure<Formula>;
    loops.trust_ratio = TrustRatio<Formula>;
  } else {
    loops.decoupled = Update<Formula, true>;
  }
  return loops;
}

template <class List>
struct UpdateTable;
template <class... Formulas>
struct UpdateTable<FormulaList<Formulas...>> {
  static constexpr UpdateLoops kRows[] = {UpdateLoopsOf<Formulas>()...};
};

}  // namespace
}  // namespace tethys::cpu

#endif  // TETHYS_RUNTIME_DEVICE_CPU_UPDATE_LOOPS_H_
