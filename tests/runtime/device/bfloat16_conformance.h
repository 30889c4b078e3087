// Conformance suite of every Device's conversion between float32 and bfloat16. device_conformance.h says how
// to instantiate a suite.
#ifndef TETHYS_TESTS_RUNTIME_DEVICE_BFLOAT16_CONFORMANCE_H_
#define TETHYS_TESTS_RUNTIME_DEVICE_BFLOAT16_CONFORMANCE_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/runtime/device/device_conformance.h"

namespace tethys {

class Bfloat16Conformance : public DeviceConformance {
 protected:
  // The values after rounding to bfloat16 and widening again.
  std::vector<float> Rounded(const std::vector<float>& values) {
    const auto count = static_cast<int64_t>(values.size());
    auto in = Floats(values), out = Poisoned(count);
    Array<Bfloat16> rounded(*this, std::vector<Bfloat16>(values.size()));
    EXPECT_TRUE(device_->RoundToBfloat16(*stream_, in.data(), rounded.data(), count).ok());
    EXPECT_TRUE(device_->WidenBfloat16(*stream_, rounded.data(), out.data(), count).ok());
    return out.Host();
  }
  // The bits in memory after rounding.
  std::vector<uint16_t> BitsOf(const std::vector<float>& values) {
    auto in = Floats(values);
    Array<Bfloat16> rounded(*this, std::vector<Bfloat16>(values.size()));
    EXPECT_TRUE(device_->RoundToBfloat16(*stream_, in.data(), rounded.data(), values.size()).ok());
    std::vector<uint16_t> bits;
    for (const Bfloat16 value : rounded.Host()) bits.push_back(static_cast<uint16_t>(value));
    return bits;
  }
};

TEST_P(Bfloat16Conformance, RoundingTakesTheNearestNumber) {
  for (const int64_t count : {10'007, 10'008}) {
    std::vector<float> values = RandomFloats(count, 1), expected;
    for (size_t i = 0; i < values.size(); ++i) values[i] *= std::ldexp(1.0f, static_cast<int>(i % 200) - 100);
    for (const float value : values) expected.push_back(RoundedTo(8, value));
    EXPECT_EQ(Rounded(values), expected);
  }
}

TEST_P(Bfloat16Conformance, TiesAreRoundedToEven) {
  EXPECT_EQ(Rounded({1 + 0x1p-8f, 1 + 3 * 0x1p-8f, -1 - 0x1p-8f, -1 - 3 * 0x1p-8f}),
            (std::vector<float>{1, 1 + 0x1p-6f, -1, -1 - 0x1p-6f}));
  EXPECT_EQ(Rounded({1 + 0x1.01p-8f, 1 + 0x1.7ffp-7f}), (std::vector<float>{1 + 0x1p-7f, 1 + 0x1p-7f}));
}

TEST_P(Bfloat16Conformance, BitsAreTheUpperHalfOfAFloat) {
  EXPECT_EQ(BitsOf({0, -0.0f, 1, -2, 0x1.fep127f, kInfinity}),
            (std::vector<uint16_t>{0, 0x8000, 0x3f80, 0xc000, 0x7f7f, 0x7f80}));
}

TEST_P(Bfloat16Conformance, NumbersBeyondTheRangeBecomeInfinite) {
  EXPECT_EQ(Rounded({0x1.fefffep127f, 0x1.ffp127f, -std::numeric_limits<float>::max(), -kInfinity}),
            (std::vector<float>{0x1.fep127f, kInfinity, -kInfinity, -kInfinity}));
}

TEST_P(Bfloat16Conformance, DenormalNumbersAreKept) {
  EXPECT_EQ(Rounded({0x1p-133f, -0x1p-130f, 0x1p-134f}), (std::vector<float>{0x1p-133f, -0x1p-130f, 0}));
}

// If NaNs were rounded up like numbers, the third and the fourth NaN would become zero. If their lower bits
// were cut off, the last NaN would become infinite.
TEST_P(Bfloat16Conformance, NanStaysNan) {
  for (const uint32_t bits : {0x7fc00000u, 0xffc00000u, 0x7fffffffu, 0xffffffffu, 0x7f800001u}) {
    EXPECT_TRUE(std::isnan(Rounded({__builtin_bit_cast(float, bits)})[0])) << bits;
  }
}

TEST_P(Bfloat16Conformance, ConversionWritesOnlyTheFirstCountElements) {
  auto ones = Floats({1, 1, 1}), out = Floats({5, 5, 5});
  Array<Bfloat16> rounded(*this, std::vector<Bfloat16>(3));
  for (const int64_t count : {0, 2}) {
    ASSERT_TRUE(device_->RoundToBfloat16(*stream_, ones.data(), rounded.data(), count).ok());
    ASSERT_TRUE(device_->WidenBfloat16(*stream_, rounded.data(), out.data(), count).ok());
  }
  EXPECT_EQ(out.Host(), (std::vector<float>{1, 1, 5}));
  ASSERT_TRUE(device_->WidenBfloat16(*stream_, rounded.data(), out.data(), 3).ok());
  EXPECT_EQ(out.Host(), (std::vector<float>{1, 1, 0}));
}

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_DEVICE_BFLOAT16_CONFORMANCE_H_
