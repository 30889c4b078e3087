// Tests of DeviceConformance for the update of parameters: every formula against its definition in double
// precision. tests/runtime/optim/ compares the optimizers with PyTorch and Keras.
#ifndef TETHYS_TESTS_RUNTIME_DEVICE_UPDATE_CONFORMANCE_H_
#define TETHYS_TESTS_RUNTIME_DEVICE_UPDATE_CONFORMANCE_H_

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/runtime/device/conformance_fixture.h"

namespace tethys {

struct FormulaCase {
  UpdateFormula formula;
  int slots;
};
constexpr FormulaCase kFormulas[] = {
    {UpdateFormula::kSgd, 0},
    {UpdateFormula::kMomentum, 1},
    {UpdateFormula::kNesterov, 1},
    {UpdateFormula::kAdam, 2},
    {UpdateFormula::kRmsprop, 1},
    {UpdateFormula::kRmspropMomentum, 2},
    {UpdateFormula::kCenteredRmsprop, 2},
    {UpdateFormula::kCenteredRmspropMomentum, 3},
    {UpdateFormula::kAdagrad, 1},
};

constexpr UpdateConstants kUpdateConstants = {.momentum = 0.9f,
                                              .mean_kept = 0.75f,
                                              .mean_added = 0.25f,
                                              .square_kept = 0.875f,
                                              .square_added = 0.125f,
                                              .epsilon = 0.125f,
                                              .epsilon_inside_root = 0.0625f,
                                              .trust = 0.25f};
constexpr UpdateRates kUpdateRates = {.learning_rate = 0.5f,
                                      .gradient_scale = 0.25f,
                                      .first_correction = 1.5f,
                                      .root_square_correction = 1.25f};

// The step that the formula makes from the mean gradient, and the new slots.
inline double ReferenceStep(UpdateFormula formula, double g, std::vector<double>& slots) {
  const double momentum = kUpdateConstants.momentum, kept_mean = kUpdateConstants.mean_kept;
  const double kept = kUpdateConstants.square_kept, epsilon = kUpdateConstants.epsilon;
  const double inside = kUpdateConstants.epsilon_inside_root;
  switch (formula) {
    case UpdateFormula::kSgd:
      return g;
    case UpdateFormula::kMomentum:
    case UpdateFormula::kNesterov:
      slots[0] = momentum * slots[0] + g;
      return formula == UpdateFormula::kMomentum ? slots[0] : g + momentum * slots[0];
    case UpdateFormula::kAdam:
      slots[0] = kept_mean * slots[0] + (1 - kept_mean) * g;
      slots[1] = kept * slots[1] + (1 - kept) * g * g;
      return 1.5 * slots[0] / (1.25 * std::sqrt(slots[1]) + epsilon);
    case UpdateFormula::kAdagrad:
      slots[0] += g * g;
      return g / (std::sqrt(slots[0] + inside) + epsilon);
    default:
      break;
  }
  const bool centered =
      formula == UpdateFormula::kCenteredRmsprop || formula == UpdateFormula::kCenteredRmspropMomentum;
  const bool with_momentum =
      formula == UpdateFormula::kRmspropMomentum || formula == UpdateFormula::kCenteredRmspropMomentum;
  slots[0] = kept * slots[0] + (1 - kept) * g * g;
  double variance = slots[0];
  if (centered) {
    slots[1] = kept * slots[1] + (1 - kept) * g;
    variance = std::max(0.0, variance - slots[1] * slots[1]);
  }
  const double step = g / (std::sqrt(variance + inside) + epsilon);
  if (!with_momentum) return step;
  return slots.back() = momentum * slots.back() + step;
}

// Values of one slot before the update. Only the slot for the mean of gradients may have negative values.
inline std::vector<float> SlotValues(int64_t count, int slot) {
  std::vector<float> values = RandomFloats(count, 3 + slot);
  for (float& value : values) value = std::fabs(value) * (slot == 0 ? 1 : 0.5f);
  return values;
}

// A worker that leaves its group refuses the updates in flight.
TEST_P(DeviceConformance, RefusedUpdateAndItsSuccessorsChangeNothing) {
  const std::vector<float> w = RandomFloats(100, 1), slot = SlotValues(100, 0);
  auto update =
      device_->CreateUpdate({UpdateFormula::kMomentum, kUpdateConstants, false}, {{{0, 100}, 0.1f}}).value();
  auto w_device = Floats(w), g_device = Floats(RandomFloats(100, 2)), slot_device = Floats(slot);
  const std::vector<float*> slots = {slot_device.data()};
  UpdateRates refusing = kUpdateRates;
  refusing.refused = 1;
  Array<int32_t> bad(*this, {0});
  for (const UpdateRates& given : {refusing, kUpdateRates}) {
    Array<UpdateRates> rates(*this, {given});
    ASSERT_TRUE(
        update->Run(*stream_, {.rates = rates.data()}, w_device.data(), g_device.data(), slots, bad.data())
            .ok());
    EXPECT_EQ(bad.Host()[0], 1);
    EXPECT_EQ(w_device.Host(), w);
    EXPECT_EQ(slot_device.Host(), slot);
  }
}

TEST_P(DeviceConformance, EveryUpdateFormulaChangesOnlyTheGivenRegions) {
  const std::vector<float> w = RandomFloats(100, 1), g = RandomFloats(100, 2);
  const std::vector<UpdateRegion> regions = {{{0, 33}, 0.1f}, {{48, 50}, 0}};
  for (const auto& [formula, slot_count] : kFormulas) {
    for (const bool decoupled : {false, true}) {
      SCOPED_TRACE(absl::StrCat("formula ", static_cast<int>(formula), decoupled ? ", decoupled" : ""));
      auto update = device_->CreateUpdate({formula, kUpdateConstants, decoupled}, regions).value();
      auto w_device = Floats(w), g_device = Floats(g);
      std::vector<Array<float>> slot_arrays;
      std::vector<float*> slots;
      for (int slot = 0; slot < slot_count; ++slot) slot_arrays.push_back(Floats(SlotValues(100, slot)));
      for (auto& slot : slot_arrays) slots.push_back(slot.data());
      Array<UpdateRates> rates(*this, {kUpdateRates});
      Array<int32_t> bad(*this, {0});
      ASSERT_TRUE(
          update->Run(*stream_, {.rates = rates.data()}, w_device.data(), g_device.data(), slots, bad.data())
              .ok());
      std::vector<double> expected_w(w.begin(), w.end());
      std::vector<std::vector<double>> expected_slots(slot_count);
      for (int slot = 0; slot < slot_count; ++slot) {
        const std::vector<float> values = SlotValues(100, slot);
        expected_slots[slot].assign(values.begin(), values.end());
      }
      for (const auto& [range, decay, adapted] : regions) {
        for (int64_t i = range.begin; i < range.end(); ++i) {
          std::vector<double> kept;
          for (const auto& slot : expected_slots) kept.push_back(slot[i]);
          const double mean = g[i] * 0.25 + (decoupled ? 0 : double{decay} * w[i]);
          const double decayed = decoupled ? w[i] * (1 - 0.5 * double{decay}) : w[i];
          expected_w[i] = decayed - 0.5 * ReferenceStep(formula, mean, kept);
          for (int slot = 0; slot < slot_count; ++slot) expected_slots[slot][i] = kept[slot];
        }
      }
      EXPECT_LE(RelativeError(w_device.Host(), expected_w), 2e-7);
      for (int slot = 0; slot < slot_count; ++slot) {
        EXPECT_LE(RelativeError(slot_arrays[slot].Host(), expected_slots[slot]), 2e-7);
      }
      EXPECT_EQ(w_device.Host()[40], w[40]);
      EXPECT_EQ(bad.Host()[0], 0);
    }
  }
}

// A parameter server updates each range of its arena when the gradients of the range arrive.
TEST_P(DeviceConformance, UpdateInPartsHasTheBitsOfOneUpdate) {
  const std::vector<float> w = RandomFloats(300, 1), g = RandomFloats(300, 2);
  const std::vector<UpdateRegion> regions = {{{0, 130}, 0.1f}, {{144, 156}, 0}};
  for (const auto& [formula, slot_count] : kFormulas) {
    auto update = device_->CreateUpdate({formula, kUpdateConstants}, regions).value();
    std::vector<std::vector<float>> results;
    for (const std::vector<int64_t>& cuts :
         {std::vector<int64_t>{0, 300}, std::vector<int64_t>{0, 1, 18, 131, 149, 150, 277, 300}}) {
      auto w_device = Floats(w), g_device = Floats(g);
      std::vector<Array<float>> slot_arrays;
      std::vector<float*> slots;
      for (int slot = 0; slot < slot_count; ++slot) slot_arrays.push_back(Floats(SlotValues(300, slot)));
      for (auto& slot : slot_arrays) slots.push_back(slot.data());
      Array<UpdateRates> rates(*this, {kUpdateRates});
      Array<int32_t> bad(*this, {0});
      for (size_t i = 0; i + 1 < cuts.size(); ++i) {
        const UpdateStep step = {.rates = rates.data(), .part = {cuts[i], cuts[i + 1] - cuts[i]}};
        ASSERT_TRUE(update->Run(*stream_, step, w_device.data(), g_device.data(), slots, bad.data()).ok());
      }
      results.push_back(w_device.Host());
      for (auto& slot : slot_arrays) {
        const std::vector<float> values = slot.Host();
        results.back().insert(results.back().end(), values.begin(), values.end());
      }
    }
    EXPECT_EQ(results[0], results[1]) << static_cast<int>(formula);
  }
}

TEST_P(DeviceConformance, NonFiniteGradientPreventsItsOwnUpdateAndAllLaterUpdates) {
  const std::vector<float> w = RandomFloats(100, 1), v = RandomFloats(100, 3), good = RandomFloats(100, 2);
  const UpdateRule rule = {.formula = UpdateFormula::kMomentum, .constants = {.momentum = 0.9f}};
  auto update = device_->CreateUpdate(rule, {{{0, 33}, 0.1f}, {{48, 50}, 0}}).value();
  Array<UpdateRates> rates(*this, {{.learning_rate = 0.5f}});
  auto good_device = Floats(good);
  for (const float value : {kPoison, -kPoison, kInfinity, -kInfinity}) {
    for (const int64_t position : {0, 32, 48, 97}) {
      std::vector<float> g = good;
      g[position] = value;
      auto w_device = Floats(w), g_device = Floats(g), v_device = Floats(v);
      Array<int32_t> bad(*this, {0});
      for (const float* gradients : {g_device.data(), good_device.data()}) {
        ASSERT_TRUE(update
                        ->Run(*stream_, {.rates = rates.data()}, w_device.data(), gradients,
                              {v_device.data()}, bad.data())
                        .ok());
        EXPECT_EQ(bad.Host()[0], 1) << value << " at " << position;
        EXPECT_EQ(w_device.Host(), w);
        EXPECT_EQ(v_device.Host(), v);
      }
    }
  }
}

TEST_P(DeviceConformance, NormAboveTheLimitScalesGradientsDownToIt) {
  const std::vector<UpdateRegion> regions = {{{0, 4100}, 0}, {{4112, 33}, 0}};
  std::vector<float> g = RandomFloats(4160, 2);
  double squares = 0;
  for (const auto& [range, decay, adapted] : regions) {
    for (int64_t i = range.begin; i < range.end(); ++i) squares += double{g[i]} * g[i];
  }
  const double norm = 0.25 * std::sqrt(squares);
  g[4105] = 1e30f;  // This element is outside of all regions.
  auto g_device = Floats(g);
  for (const double limit : {norm / 3, norm * 0.999, norm * 1.001}) {
    auto clip = device_->CreateClip(limit, regions).value();
    Array<UpdateRates> rates(*this, {{.learning_rate = 0.5f, .gradient_scale = 0.25f}});
    ASSERT_TRUE(clip->Run(*stream_, g_device.data(), rates.data()).ok());
    const UpdateRates clipped = rates.Host()[0];
    EXPECT_NEAR(clipped.gradient_scale, 0.25 * std::min(1.0, limit / norm), 1e-7);
    EXPECT_EQ(clipped.learning_rate, 0.5f);
  }
}

TEST_P(DeviceConformance, GradientsWithANanNormAreNotClipped) {
  std::vector<float> g = RandomFloats(100, 2);
  g[40] = kPoison;
  auto g_device = Floats(g);
  auto clip = device_->CreateClip(1e-3, {{{0, 100}, 0}}).value();
  Array<UpdateRates> rates(*this, {{.gradient_scale = 0.25f}});
  ASSERT_TRUE(clip->Run(*stream_, g_device.data(), rates.data()).ok());
  EXPECT_EQ(rates.Host()[0].gradient_scale, 0.25f);
  EXPECT_FALSE(device_->CreateClip(0, {}).ok());
  EXPECT_FALSE(device_->CreateClip(std::nan(""), {}).ok());
}

TEST_P(DeviceConformance, UpdateRulesWithConstantsOutOfRangeAreRefused) {
  const UpdateRule rules[] = {
      {.formula = static_cast<UpdateFormula>(kUpdateFormulas)},
      {.formula = UpdateFormula::kMomentum, .constants = {.momentum = 1}},
      {.formula = UpdateFormula::kAdam, .constants = {.mean_kept = 1, .epsilon = 1e-8f}},
      {.formula = UpdateFormula::kRmsprop, .constants = {.square_kept = -0.1f, .epsilon = 1e-8f}},
      {.formula = UpdateFormula::kAdagrad, .constants = {.epsilon = kPoison}},
      {.formula = UpdateFormula::kAdagrad},
  };
  for (const UpdateRule& rule : rules) {
    EXPECT_EQ(device_->CreateUpdate(rule, {}).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_DEVICE_UPDATE_CONFORMANCE_H_
