// Tests of DeviceConformance for input conversion.
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

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_DEVICE_ELEMENTWISE_CONFORMANCE_H_
