// Tests of DeviceConformance for input conversion and SGD.
#ifndef TETHYS_TESTS_RUNTIME_DEVICE_ELEMENTWISE_CONFORMANCE_H_
#define TETHYS_TESTS_RUNTIME_DEVICE_ELEMENTWISE_CONFORMANCE_H_

#include <cstdint>
#include <vector>

#include "tests/runtime/device/conformance_fixture.h"

namespace tethys {

TEST_P(DeviceConformance, BytesAreStandardised) {
  std::vector<uint8_t> bytes(256 + 7);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i);
  Array<uint8_t> in(*this, bytes);
  auto out = Poisoned(bytes.size());
  auto conversion = device_->CreateInputConversion(bytes.size(), 0.2860f, 0.3530f).value();
  ASSERT_TRUE(conversion->Run(*stream_, in.data(), out.data()).ok());
  const std::vector<float> host = out.Host();
  for (size_t i = 0; i < bytes.size(); ++i) EXPECT_NEAR(host[i], (bytes[i] / 255.0 - 0.2860) / 0.3530, 1e-6);
}

TEST_P(DeviceConformance, SgdUpdatesItsRegionsAndNothingElse) {
  const std::vector<float> w = RandomFloats(100, 1), g = RandomFloats(100, 2), v = RandomFloats(100, 3);
  const std::vector<UpdateRegion> regions = {{{0, 33}, 0.1f}, {{48, 50}, 0}};
  for (const float momentum : {0.0f, 0.9f}) {
    auto sgd = device_->CreateSgd(regions, momentum).value();
    auto w_device = Floats(w), g_device = Floats(g), v_device = Floats(v);
    Array<SgdRates> rates(*this, {{.learning_rate = 0.5f, .gradient_scale = 0.25f}});
    Array<int32_t> bad(*this, {0});
    ASSERT_TRUE(sgd->Run(*stream_, {.rates = rates.data()}, w_device.data(), g_device.data(),
                         momentum == 0 ? nullptr : v_device.data(), bad.data())
                    .ok());
    std::vector<double> expected_w(w.begin(), w.end()), expected_v(v.begin(), v.end());
    for (const auto& [range, decay] : regions) {
      for (int64_t i = range.begin; i < range.end(); ++i) {
        const double step = g[i] * 0.25 + double{decay} * w[i] + double{momentum} * v[i];
        if (momentum != 0) expected_v[i] = step;
        expected_w[i] = w[i] - 0.5 * (momentum != 0 ? step : g[i] * 0.25 + double{decay} * w[i]);
      }
    }
    EXPECT_LE(RelativeError(w_device.Host(), expected_w), 1e-7);
    EXPECT_LE(RelativeError(v_device.Host(), expected_v), 1e-7);
    EXPECT_EQ(w_device.Host()[40], w[40]);
    EXPECT_EQ(bad.Host()[0], 0);
  }
}

TEST_P(DeviceConformance, NonFiniteGradientBlocksThisAndLaterUpdates) {
  const std::vector<float> w = RandomFloats(100, 1), v = RandomFloats(100, 3), good = RandomFloats(100, 2);
  auto sgd = device_->CreateSgd({{{0, 33}, 0.1f}, {{48, 50}, 0}}, 0.9f).value();
  Array<SgdRates> rates(*this, {{.learning_rate = 0.5f}});
  auto good_device = Floats(good);
  for (const float value : {kPoison, -kPoison, kInfinity, -kInfinity}) {
    for (const int64_t position : {0, 32, 48, 97}) {
      std::vector<float> g = good;
      g[position] = value;
      auto w_device = Floats(w), g_device = Floats(g), v_device = Floats(v);
      Array<int32_t> bad(*this, {0});
      for (const float* gradients : {g_device.data(), good_device.data()}) {
        ASSERT_TRUE(sgd->Run(*stream_, {.rates = rates.data()}, w_device.data(), gradients, v_device.data(),
                             bad.data())
                        .ok());
        EXPECT_EQ(bad.Host()[0], 1) << value << " at " << position;
        EXPECT_EQ(w_device.Host(), w);
        EXPECT_EQ(v_device.Host(), v);
      }
    }
  }
}

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_DEVICE_ELEMENTWISE_CONFORMANCE_H_
