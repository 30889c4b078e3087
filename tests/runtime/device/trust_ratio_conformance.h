// Tests of DeviceConformance for updates whose steps a trust ratio scales: every such formula against its
// definition in double precision.
#ifndef TETHYS_TESTS_RUNTIME_DEVICE_TRUST_RATIO_CONFORMANCE_H_
#define TETHYS_TESTS_RUNTIME_DEVICE_TRUST_RATIO_CONFORMANCE_H_

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/runtime/device/update_conformance.h"

namespace tethys {

constexpr FormulaCase kTrustFormulas[] = {
    {UpdateFormula::kLars, 1}, {UpdateFormula::kNesterovLars, 1}, {UpdateFormula::kLamb, 2}};
static_assert(std::size(kFormulas) + std::size(kTrustFormulas) == kUpdateFormulas);

// An arena of 9,200 elements. Its regions are, in this order: a region of several tiles, one without decay,
// one without adaptation, one with parameters of 0, and one with gradients of 0.
constexpr int64_t kTrustElements = 9200;
inline std::vector<UpdateRegion> TrustRegions() {
  return {{{0, 9001}, 0.1f}, {{9008, 33}, 0}, {{9056, 50}, 0, false}, {{9120, 20}, 0.1f}, {{9152, 20}, 0}};
}
inline std::vector<float> TrustParameters() {
  std::vector<float> w = RandomFloats(kTrustElements, 1);
  std::fill(w.begin() + 9120, w.begin() + 9140, 0.0f);
  return w;
}
inline std::vector<float> TrustGradients() {
  std::vector<float> g = RandomFloats(kTrustElements, 2);
  std::fill(g.begin() + 9152, g.begin() + 9172, 0.0f);
  return g;
}

// Arenas as vectors of double: parameters, then slots.
using TrustState = std::vector<std::vector<double>>;

inline void UpdateByDefinition(UpdateFormula formula, const UpdateRegion& region, const std::vector<float>& g,
                               TrustState& state) {
  const bool lamb = formula == UpdateFormula::kLamb;
  const double decay = region.weight_decay;
  std::vector<double>& w = state[0];
  std::vector<double> steps;  // The steps before the trust ratio and, with LARS, before the momentum.
  double w_squares = 0, g_squares = 0, step_squares = 0;
  for (int64_t i = region.range.begin; i < region.range.end(); ++i) {
    const double mean = g[i] * 0.25;
    double step = mean;
    if (lamb) {
      std::vector<double> slots = {state[1][i], state[2][i]};
      step = ReferenceStep(UpdateFormula::kAdam, mean, slots);
      state[1][i] = slots[0], state[2][i] = slots[1];
    }
    steps.push_back(step + decay * w[i]);
    w_squares += w[i] * w[i], g_squares += mean * mean, step_squares += steps.back() * steps.back();
  }
  const double w_norm = std::sqrt(w_squares), g_norm = std::sqrt(g_squares);
  double ratio = 1;
  if (region.adapted && w_norm > 0 && (lamb ? step_squares : g_squares) > 0) {
    ratio = lamb ? w_norm / std::sqrt(step_squares)
                 : kUpdateConstants.trust * w_norm / (g_norm + decay * w_norm + kUpdateConstants.epsilon);
  }
  for (int64_t i = region.range.begin; i < region.range.end(); ++i) {
    double step = ratio * steps[i - region.range.begin];
    if (!lamb) {
      std::vector<double> slots = {state[1][i]};
      step = ReferenceStep(
          formula == UpdateFormula::kLars ? UpdateFormula::kMomentum : UpdateFormula::kNesterov, step, slots);
      state[1][i] = slots[0];
    }
    w[i] -= 0.5 * step;
  }
}

// Returns parameters and slots after updates by each of these gradients in turn.
inline std::vector<std::vector<float>> DeviceConformance::Updated(
    UpdateFormula formula, const std::vector<UpdateRegion>& regions,
    const std::vector<std::vector<float>>& arenas, const std::vector<std::vector<float>>& gradients) {
  auto update = device_->CreateUpdate({formula, kUpdateConstants}, regions).value();
  std::vector<Array<float>> arrays;
  std::vector<float*> pointers;
  for (const auto& arena : arenas) arrays.push_back(Floats(arena));
  for (auto& array : arrays) pointers.push_back(array.data());
  Array<UpdateRates> rates(*this, {kUpdateRates});
  Array<int32_t> bad(*this, {0});
  for (const auto& g : gradients) {
    auto g_device = Floats(g);
    const absl::Span<float* const> slots = absl::MakeConstSpan(pointers).subspan(1);
    EXPECT_TRUE(
        update->Run(*stream_, {.rates = rates.data()}, pointers[0], g_device.data(), slots, bad.data()).ok());
    EXPECT_TRUE(stream_->Synchronize().ok());
  }
  std::vector<std::vector<float>> results;
  for (auto& array : arrays) results.push_back(array.Host());
  return results;
}

inline std::vector<std::vector<float>> TrustArenas(const FormulaCase& formula) {
  std::vector<std::vector<float>> arenas = {TrustParameters()};
  for (int slot = 0; slot < formula.slots; ++slot) arenas.push_back(SlotValues(kTrustElements, slot));
  return arenas;
}

TEST_P(DeviceConformance, TrustRatioOfARegionScalesItsUpdate) {
  for (const FormulaCase& formula : kTrustFormulas) {
    SCOPED_TRACE(static_cast<int>(formula.formula));
    const auto arenas = TrustArenas(formula);
    const auto results = Updated(formula.formula, TrustRegions(), arenas, {TrustGradients()});
    TrustState expected;
    for (const auto& arena : arenas) expected.emplace_back(arena.begin(), arena.end());
    for (const UpdateRegion& region : TrustRegions()) {
      UpdateByDefinition(formula.formula, region, TrustGradients(), expected);
    }
    for (size_t arena = 0; arena < arenas.size(); ++arena) {
      for (const UpdateRegion& region : TrustRegions()) {
        const auto begin = region.range.begin, end = region.range.end();
        EXPECT_LE(RelativeError({results[arena].begin() + begin, results[arena].begin() + end},
                                {expected[arena].begin() + begin, expected[arena].begin() + end}),
                  3e-7)
            << "arena " << arena << ", from " << begin;
      }
      EXPECT_EQ(results[arena][9004], arenas[arena][9004]);
    }
  }
}

TEST_P(DeviceConformance, RerunWithTrustRatiosHasTheSameBits) {
  for (const FormulaCase& formula : kTrustFormulas) {
    const auto first =
        Updated(formula.formula, TrustRegions(), TrustArenas(formula), {TrustGradients(), TrustGradients()});
    EXPECT_EQ(first, Updated(formula.formula, TrustRegions(), TrustArenas(formula),
                             {TrustGradients(), TrustGradients()}));
  }
}

TEST_P(DeviceConformance, NonFiniteGradientLeavesParametersAndSlotsUnchanged) {
  for (const FormulaCase& formula : kTrustFormulas) {
    const auto arenas = TrustArenas(formula);
    for (const float value : {kPoison, -kInfinity}) {
      for (const int64_t position : {0, 9000, 9171}) {
        std::vector<float> g = TrustGradients();
        g[position] = value;
        EXPECT_EQ(Updated(formula.formula, TrustRegions(), arenas, {g, TrustGradients()}), arenas)
            << static_cast<int>(formula.formula) << ": " << value << " at " << position;
      }
    }
  }
}

TEST_P(DeviceConformance, LargestTrustRatioLeavesParametersFinite) {
  std::vector<float> g(100, 1e-37f);
  g[7] = 0;
  for (const FormulaCase& formula : kTrustFormulas) {
    std::vector<std::vector<float>> arenas(1 + formula.slots, std::vector<float>(100));
    arenas[0].assign(100, 1e3f);
    const auto results = Updated(formula.formula, {{{0, 100}, 0}}, arenas, {g});
    for (const float w : results[0]) EXPECT_TRUE(std::isfinite(w)) << static_cast<int>(formula.formula);
    EXPECT_EQ(results[0][7], 1e3f);
  }
}

TEST_P(DeviceConformance, UpdateRuleWithTrustOfZeroOrDecoupledDecayIsRefused) {
  UpdateRule rule = {.formula = UpdateFormula::kLars, .constants = kUpdateConstants};
  EXPECT_TRUE(device_->CreateUpdate(rule, {}).ok());
  rule.constants.trust = 0;
  EXPECT_EQ(device_->CreateUpdate(rule, {}).status().code(), absl::StatusCode::kInvalidArgument);
  for (const FormulaCase& formula : kTrustFormulas) {
    EXPECT_EQ(device_->CreateUpdate({formula.formula, kUpdateConstants, true}, {}).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_DEVICE_TRUST_RATIO_CONFORMANCE_H_
