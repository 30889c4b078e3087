// Helpers of the devices' conformance suites: a device's arithmetic, tolerances for its results, and random
// inputs that it represents exactly.
#ifndef TETHYS_TESTS_RUNTIME_DEVICE_ARITHMETIC_H_
#define TETHYS_TESTS_RUNTIME_DEVICE_ARITHMETIC_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "runtime/base/random.h"

namespace tethys {

// The nearest number with `bits` significant bits.
inline float RoundedTo(int bits, float value) {
  int exponent = 0;
  const float mantissa = std::frexp(value, &exponent);  // The mantissa is in [0.5, 1).
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, bits)), exponent - bits);
}

// The precision of a device's products and of its activations in significant bits: float32 has 24, TF32 11,
// bfloat16 8. All other operations are in float32. Inputs in these tests are activations that the device
// represents exactly, and factors have at most factor_bits bits, so that their products are exact too.
// Tolerances are relative errors of whole tensors and allow only for the rounding of sums and results.
struct Arithmetic {
  int factor_bits;
  int activation_bits;

  // The value that a device's activation holds after `value` was written to it.
  float Stored(float value) const {
    return activation_bits == 24 ? value : RoundedTo(activation_bits, value);
  }
  std::vector<float> Stored(std::vector<float> values) const {
    for (float& value : values) value = Stored(value);
    return values;
  }
  // The relative error of a result that is written as an activation: rounding to n bits changes it by up to
  // 2^-n.
  double StoredTolerance(double before) const {
    return before + (activation_bits == 24 ? 0 : std::ldexp(1, -activation_bits));
  }

  // Tolerance of sums in float32. Each rounding changes the sum by up to 2^-24 of its value in either
  // direction, so the error grows like the square root of the number of terms.
  static double SumTolerance(int64_t terms) { return 1e-6 + std::sqrt(terms) * 0x1p-24; }
  // Tensor cores, which compute the products of fewer than 24 bits, truncate sums. Each truncation changes
  // the sum by up to 2^-23 of its value, always towards zero, so the error grows like the number of terms.
  double ProductTolerance(int64_t terms) const {
    return factor_bits == 24 ? SumTolerance(terms) : 1e-6 + terms * 0x1p-23;
  }
  // Tolerance of products that are written as activations, then added to a bias and written again.
  double StoredProductTolerance(int64_t terms) const {
    return StoredTolerance(StoredTolerance(ProductTolerance(terms)));
  }
};
constexpr Arithmetic kFloat32 = {24, 24}, kTf32 = {11, 24}, kBfloat16 = {8, 8};

constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Random numbers, uniform in [-1, 1), with a different sequence for each `key`.
inline std::vector<float> RandomFloats(int64_t count, uint64_t key) {
  RandomStream stream(7, RandomPurpose::kTest, key);
  std::vector<float> values(count);
  for (float& value : values) value = 2 * ToUnitFloat(stream.Next32()) - 1;
  return values;
}

// |out - reference| / |reference|, or |out| if the reference is zero, in Euclidean norms. NaN if `out`
// contains a NaN.
inline double RelativeError(const std::vector<float>& out, const std::vector<double>& reference) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    difference += (out[i] - reference[i]) * (out[i] - reference[i]);
    norm += reference[i] * reference[i];
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_DEVICE_ARITHMETIC_H_
