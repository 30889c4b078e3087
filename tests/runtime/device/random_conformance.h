// Tests of DeviceConformance for random numbers. graph_conformance.h tests random numbers drawn by graphs.
#ifndef TETHYS_TESTS_RUNTIME_DEVICE_RANDOM_CONFORMANCE_H_
#define TETHYS_TESTS_RUNTIME_DEVICE_RANDOM_CONFORMANCE_H_

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "runtime/base/random.h"
#include "tests/runtime/device/conformance_fixture.h"

namespace tethys {

inline std::vector<float> DeviceConformance::Draw(int64_t count, const RandomPosition& position,
                                                  uint64_t seed, RandomPurpose purpose) {
  auto uniform = device_->CreateUniform(count, seed, purpose).value();
  Array<RandomPosition> position_device(*this, {position});
  auto out = Poisoned(count + 1);
  EXPECT_TRUE(uniform->Run(*stream_, position_device.data(), out.data()).ok());
  std::vector<float> numbers = out.Host();
  EXPECT_TRUE(std::isnan(numbers.back())) << "was written, though " << count << " were asked for";
  numbers.pop_back();
  return numbers;
}

TEST_P(DeviceConformance, RandomNumbersEqualRandomStream) {
  for (const uint64_t step : {uint64_t{0}, uint64_t{7}, uint64_t{7} << 32}) {
    for (const int64_t count : {0, 1, 3, 4, 5, 1023}) {
      RandomStream stream(kSeed, RandomPurpose::kTest, step);
      std::vector<float> expected(count);
      for (float& number : expected) number = ToUnitFloat(stream.Next32());
      EXPECT_EQ(Draw(count, {.step = step}), expected) << count << " of step " << step;
    }
  }
}

TEST_P(DeviceConformance, PartOfAStepHasTheNumbersOfTheWholeStep) {
  const std::vector<float> whole = Draw(40, {.step = 3});
  for (const int64_t first : {1, 2, 3, 4, 11}) {
    for (const int64_t count : {1, 2, 6, 29}) {
      const std::vector<float> part(whole.begin() + first, whole.begin() + first + count);
      EXPECT_EQ(Draw(count, {.step = 3, .first = static_cast<uint64_t>(first)}), part) << first;
    }
  }
}

TEST_P(DeviceConformance, PositionsBeyond32BitsAreNotTruncated) {
  constexpr uint64_t kBlock = (uint64_t{5} << 32) + 1;
  const std::array<uint32_t, 4> block = RandomStream(kSeed, RandomPurpose::kTest, 3).Block(kBlock);
  EXPECT_EQ(Draw(2, {.step = 3, .first = 4 * kBlock + 1}),
            (std::vector<float>{ToUnitFloat(block[1]), ToUnitFloat(block[2])}));
}

TEST_P(DeviceConformance, EachStepSeedAndPurposeHasItsOwnNumbers) {
  const std::vector<float> numbers = Draw(8, {.step = 3});
  EXPECT_EQ(Draw(8, {.step = 3}), numbers);
  EXPECT_NE(Draw(8, {.step = 4}), numbers);
  EXPECT_NE(Draw(8, {.step = 3}, kSeed + 1), numbers);
  EXPECT_NE(Draw(8, {.step = 3}, kSeed, RandomPurpose::kShuffle), numbers);
}

// The mean must be 1/2 and the variance 1/12, each within five standard deviations of its estimate:
// sqrt(1/12 / count) for the mean, sqrt(1/180 / count) for the variance.
TEST_P(DeviceConformance, RandomNumbersAreUniform) {
  constexpr int64_t kCount = 1 << 16;
  double sum = 0, squares = 0;
  for (const float number : Draw(kCount, {.step = 1})) {
    EXPECT_TRUE(number > 0 && number < 1) << number;
    sum += number;
    squares += (number - 0.5) * (number - 0.5);
  }
  EXPECT_NEAR(sum / kCount, 0.5, 5 * std::sqrt(1.0 / 12 / kCount));
  EXPECT_NEAR(squares / kCount, 1.0 / 12, 5 * std::sqrt(1.0 / 180 / kCount));
}

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_DEVICE_RANDOM_CONFORMANCE_H_
