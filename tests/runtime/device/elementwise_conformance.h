// Tests of DeviceConformance for input conversion, sums, activations and copies of columns.
#ifndef TETHYS_TESTS_RUNTIME_DEVICE_ELEMENTWISE_CONFORMANCE_H_
#define TETHYS_TESTS_RUNTIME_DEVICE_ELEMENTWISE_CONFORMANCE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/runtime/device/conformance_fixture.h"

namespace tethys {

TEST_P(DeviceConformance, BytesAreStandardisedWithOneMeanAndDeviation) {
  std::vector<uint8_t> bytes(256 + 7);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i);
  Array<uint8_t> in(*this, bytes);
  auto out = PoisonedActivations(bytes.size());
  auto conversion = device_->CreateInputConversion(bytes.size(), {{0.2860f}, {0.3530f}}).value();
  ASSERT_TRUE(conversion->Run(*stream_, in.data(), out.data()).ok());
  const std::vector<float> host = out.Host();
  for (size_t i = 0; i < bytes.size(); ++i) {
    const double expected = (bytes[i] / 255.0 - 0.2860) / 0.3530;
    EXPECT_NEAR(host[i], expected, 1e-6 + StoredError(expected));
  }
}

TEST_P(DeviceConformance, BytesAreStandardisedByMeanAndDeviationOfTheirChannel) {
  const std::vector<float> mean = {0.49f, 0.48f, 0.45f}, deviation = {0.25f, 0.125f, 0.5f};
  for (const int64_t pixels : {1, 64, 1000}) {
    std::vector<uint8_t> bytes(3 * pixels);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7);
    Array<uint8_t> in(*this, bytes);
    auto out = PoisonedActivations(bytes.size());
    auto conversion = device_->CreateInputConversion(bytes.size(), {mean, deviation}).value();
    ASSERT_TRUE(conversion->Run(*stream_, in.data(), out.data()).ok());
    const std::vector<float> host = out.Host();
    for (size_t i = 0; i < bytes.size(); ++i) {
      const double expected = (bytes[i] / 255.0 - mean[i % 3]) / deviation[i % 3];
      ASSERT_NEAR(host[i], expected, 1e-6 + StoredError(expected)) << i;
    }
  }
}

// A scaling with a mean and a deviation for each feature of a table.
inline InputScaling FeaturesOf(int features, ValueType type) {
  InputScaling scaling = {.mean = {}, .deviation = {}, .type = type};
  for (int i = 0; i < features; ++i) {
    scaling.mean.push_back(0.01f * static_cast<float>(i % 90));
    scaling.deviation.push_back(0.5f + 0.25f * static_cast<float>(i % 7));
  }
  return scaling;
}

TEST_P(DeviceConformance, FloatsAreStandardisedWithoutDivisionBy255) {
  const std::vector<float> values = RandomFloats(3 * 17 * 1001, 5);
  auto in = Floats(values);
  for (const InputScaling& scaling :
       {InputScaling{{0.5f}, {0.25f}, ValueType::kFloat},
        InputScaling{{0.49f, -0.48f, 45}, {0.25f, 0.125f, 50}, ValueType::kFloat},
        FeaturesOf(17, ValueType::kFloat), FeaturesOf(3003, ValueType::kFloat)}) {
    auto out = PoisonedActivations(values.size());
    auto conversion = device_->CreateInputConversion(values.size(), scaling).value();
    ASSERT_TRUE(conversion->Run(*stream_, in.data(), out.data()).ok());
    const std::vector<float> host = out.Host();
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t channel = i % scaling.mean.size();
      const double expected = (double{values[i]} - scaling.mean[channel]) / scaling.deviation[channel];
      ASSERT_NEAR(host[i], expected, 1e-5 + StoredError(expected)) << i;
    }
  }
}

TEST_P(DeviceConformance, SumsOfTwoArraysEqualFloatSumsRoundedToTheArrayType) {
  for (const ElementType type : {ElementType::kFloat32, device_->activation_type()}) {
    const auto stored = [&](float value) {
      return type == ElementType::kFloat32 ? value : arithmetic_.Stored(value);
    };
    for (const int64_t count : {0, 1, 15, 1000}) {
      const std::vector<float> a = RandomActivations(count, 1), b = RandomActivations(count, 2);
      auto sum = device_->Create(SumShape{.count = count, .type = type}).value();
      Values a_device(*this, type, a), b_device(*this, type, b);
      Values out(*this, type, std::vector<float>(count, kPoison));
      ASSERT_TRUE(sum->Run(*stream_, a_device.data(), b_device.data(), out.data()).ok());
      std::vector<float> expected(count);
      for (int64_t i = 0; i < count; ++i) expected[i] = stored(a[i] + b[i]);
      EXPECT_EQ(out.Host(), expected);
      ASSERT_TRUE(sum->Run(*stream_, b_device.data(), a_device.data(), a_device.data()).ok());
      EXPECT_EQ(a_device.Host(), expected) << "in place";
      ASSERT_TRUE(sum->Run(*stream_, b_device.data(), b_device.data(), b_device.data()).ok());
      for (int64_t i = 0; i < count; ++i) expected[i] = stored(b[i] + b[i]);
      EXPECT_EQ(b_device.Host(), expected) << "twice the same";
    }
  }
  EXPECT_FALSE(device_->Create(SumShape{.count = -1}).ok());
  EXPECT_EQ(device_->Create(SumShape{.count = 1, .type = ElementType::kBfloat16}).ok(),
            device_->activation_type() == ElementType::kBfloat16);
}

TEST_P(DeviceConformance, SumsWithReluEqualSumsFollowedByRelu) {
  for (const int64_t count : {0, 1, 15, 1000}) {
    std::vector<float> a = RandomFloats(count, 1), b = RandomFloats(count, 2);
    if (count > 3) a[0] = kPoison, b[1] = kPoison, a[2] = -b[2], a[3] = b[3] = -0.0f;
    const ElementType type = device_->activation_type();
    auto sum = device_->Create(SumShape{.count = count, .type = type}).value();
    auto with_relu = device_->Create(SumShape{.count = count, .relu = true, .type = type}).value();
    auto relu = device_->Create(ActivationShape{count, ActivationFunction::kRelu}).value();
    auto a_device = Activations(a), b_device = Activations(b), out = PoisonedActivations(count),
         fused = PoisonedActivations(count);
    const auto expect_equal = [&](Values& found, const char* how) {
      ASSERT_TRUE(relu->Forward(*stream_, out.data(), out.data()).ok());
      const std::vector<float> left = found.Host(), right = out.Host();
      EXPECT_EQ(count == 0 ? 0 : std::memcmp(left.data(), right.data(), count * sizeof(float)), 0) << how;
    };
    ASSERT_TRUE(sum->Run(*stream_, a_device.data(), b_device.data(), out.data()).ok());
    ASSERT_TRUE(with_relu->Run(*stream_, a_device.data(), b_device.data(), fused.data()).ok());
    expect_equal(fused, "to another array");
    ASSERT_TRUE(sum->Run(*stream_, a_device.data(), a_device.data(), out.data()).ok());
    ASSERT_TRUE(with_relu->Run(*stream_, a_device.data(), a_device.data(), fused.data()).ok());
    expect_equal(fused, "twice the same");
    ASSERT_TRUE(sum->Run(*stream_, a_device.data(), b_device.data(), out.data()).ok());
    ASSERT_TRUE(with_relu->Run(*stream_, b_device.data(), a_device.data(), a_device.data()).ok());
    expect_equal(a_device, "in place");
  }
}

TEST_P(DeviceConformance, BiasIsAddedToEachRowAndItsGradientIsTheSumOfRows) {
  for (const auto& [rows, columns] : {std::pair(1, 1), {3, 5}, {2000, 3}, {300, 16}, {2, 4096}}) {
    const std::vector<float> bias = RandomFloats(columns, 1), y = RandomActivations(rows * columns, 2);
    auto primitive = device_->Create(BiasShape{rows, columns}).value();
    auto bias_device = Floats(bias), dbias = Poisoned(columns);
    auto y_device = Activations(y);
    ASSERT_TRUE(primitive->Backward(*stream_, y_device.data(), dbias.data()).ok());
    EXPECT_EQ(y_device.Host(), y) << "the gradient of the output is only read";
    ASSERT_TRUE(primitive->Forward(*stream_, bias_device.data(), y_device.data()).ok());
    std::vector<float> expected(y.size());
    std::vector<double> sums(columns);
    for (int64_t i = 0; i < rows * columns; ++i) {
      expected[i] = arithmetic_.Stored(y[i] + bias[i % columns]);
      sums[i % columns] += y[i];
    }
    EXPECT_EQ(y_device.Host(), expected);
    EXPECT_LE(RelativeError(dbias.Host(), sums), Arithmetic::SumTolerance(rows));
  }
  EXPECT_FALSE(device_->Create(BiasShape{0, 1}).ok());
}

inline double ActivationValue(ActivationFunction function, double x) {
  switch (function) {
    case ActivationFunction::kRelu:
      return std::max(x, 0.0);
    case ActivationFunction::kRelu6:
      return std::min(std::max(x, 0.0), 6.0);
    case ActivationFunction::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case ActivationFunction::kTanh:
      return std::tanh(x);
  }
  return 0;
}
inline double ActivationDerivative(ActivationFunction function, double x) {
  const double y = ActivationValue(function, x);
  switch (function) {
    case ActivationFunction::kRelu:
      return x > 0;
    case ActivationFunction::kRelu6:
      return x > 0 && x < 6;
    case ActivationFunction::kSigmoid:
      return y * (1 - y);
    case ActivationFunction::kTanh:
      return 1 - y * y;
  }
  return 0;
}

TEST_P(DeviceConformance, ActivationsAgreeWithDoublePrecision) {
  std::vector<float> x = {0, 6, -1e-7f, 1e-7f, 1e-3f, -1e-3f, 0.2499f, 0.2501f, 100, -100, 1e30f, -1e30f};
  for (const float value : RandomFloats(1000, 1)) x.push_back(8 * value);
  x = arithmetic_.Stored(x);
  const std::vector<float> dy = RandomActivations(x.size(), 2);
  for (int f = 0; f < kActivationFunctions; ++f) {
    const auto function = static_cast<ActivationFunction>(f);
    SCOPED_TRACE(f);
    auto activation = device_->Create(ActivationShape{static_cast<int64_t>(x.size()), function}).value();
    auto x_device = Activations(x), y = PoisonedActivations(x.size()), dy_device = Activations(dy),
         dx = PoisonedActivations(x.size());
    ASSERT_TRUE(activation->Forward(*stream_, x_device.data(), y.data()).ok());
    ASSERT_TRUE(activation->Backward(*stream_, y.data(), dy_device.data(), dx.data()).ok());
    const std::vector<float> values = y.Host(), gradients = dx.Host();
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = ActivationValue(function, x[i]);
      EXPECT_NEAR(values[i], expected, 1e-6 * std::abs(expected) + 1e-37 + StoredError(expected)) << x[i];
      // The derivative is computed from y, so its error is at most twice the error of y.
      EXPECT_NEAR(gradients[i], dy[i] * ActivationDerivative(function, x[i]), 4e-7 + 3 * StoredError(dy[i]))
          << x[i];
    }
    ASSERT_TRUE(activation->Forward(*stream_, x_device.data(), x_device.data()).ok());
    EXPECT_EQ(x_device.Host(), values) << "in place";
    ASSERT_TRUE(activation->Backward(*stream_, y.data(), dy_device.data(), dy_device.data()).ok());
    EXPECT_EQ(dy_device.Host(), gradients) << "in place";
  }
}

TEST_P(DeviceConformance, ActivationsKeepNaN) {
  for (int f = 0; f < kActivationFunctions; ++f) {
    auto activation = device_->Create(ActivationShape{20, static_cast<ActivationFunction>(f)}).value();
    auto x = PoisonedActivations(20);
    ASSERT_TRUE(activation->Forward(*stream_, x.data(), x.data()).ok());
    for (const float value : x.Host()) EXPECT_TRUE(std::isnan(value)) << f;
  }
}

TEST_P(DeviceConformance, ColumnsAreCopiedBetweenMatricesOfDifferentWidths) {
  const std::vector<float> from = RandomFloats(4 * 7, 1);
  auto from_device = Floats(from), to = Floats(std::vector<float>(4 * 5, 0));
  constexpr int64_t kBytes = sizeof(float);
  const ColumnCopy copy = {.rows = 4,
                           .columns = 3 * kBytes,
                           .to = to.data() + 2,
                           .to_width = 5 * kBytes,
                           .from = from_device.data() + 1,
                           .from_width = 7 * kBytes};
  ASSERT_TRUE(device_->CopyColumns(*stream_, copy).ok());
  const std::vector<float> host = to.Host();
  for (int64_t i = 0; i < 4 * 5; ++i) {
    EXPECT_EQ(host[i], i % 5 < 2 ? 0 : from[i / 5 * 7 + i % 5 - 1]) << i;
  }
}

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_DEVICE_ELEMENTWISE_CONFORMANCE_H_
