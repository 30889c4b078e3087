// Conformance suite of every Device, against references in double precision. A back end's test includes this
// and instantiates the suite with a factory of the device and the arithmetic of its products:
//
//   INSTANTIATE_TEST_SUITE_P(Cpu, DeviceConformance,
//                            ::testing::Values(DeviceCase{[] { return CreateCpuDevice(1); }, kFloat32}));
//
// The tests are split by subject. The tests included here apply to every back end; if a device supports the
// subject of image_conformance.h or a similar header, its test also includes that header.
//
// Outputs are filled with NaN before every run, so that unwritten elements are detected.
#ifndef TETHYS_TESTS_RUNTIME_DEVICE_DEVICE_CONFORMANCE_H_
#define TETHYS_TESTS_RUNTIME_DEVICE_DEVICE_CONFORMANCE_H_

#include <cstdint>
#include <vector>

#include "runtime/device/input_scaling.h"
#include "tests/runtime/device/conformance_fixture.h"
#include "tests/runtime/device/dense_conformance.h"
#include "tests/runtime/device/dropout_conformance.h"
#include "tests/runtime/device/elementwise_conformance.h"
#include "tests/runtime/device/loss_conformance.h"
#include "tests/runtime/device/normalisation_conformance.h"
#include "tests/runtime/device/trust_ratio_conformance.h"
#include "tests/runtime/device/update_conformance.h"

namespace tethys {

TEST_P(DeviceConformance, BuffersAreZeroedAndAligned) {
  for (const int64_t bytes : {0, 1, 63, 64, 1000003}) {
    auto buffer = device_->Allocate(bytes, MemoryKind::kDevice).value();
    EXPECT_EQ(buffer->bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 64, 0u);
    std::vector<char> host(bytes, 'x');
    ASSERT_TRUE(device_->CopyToHost(*stream_, host.data(), buffer->data(), bytes).ok());
    ASSERT_TRUE(stream_->Synchronize().ok());
    EXPECT_THAT(host, ::testing::Each('\0'));
  }
  EXPECT_FALSE(device_->Allocate(-1, MemoryKind::kDevice).ok());
}

TEST_P(DeviceConformance, InvalidShapesAndParametersOfOperationsAreRefused) {
  EXPECT_EQ(device_->Create(DenseShape{.rows = 0, .in = 1, .out = 1}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(device_->Create(DenseShape{.rows = 1, .in = -1, .out = 1}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(device_->Create(SoftmaxCrossEntropyShape{.rows = 1, .classes = 0}).ok());
  EXPECT_FALSE(device_->Create(SoftmaxCrossEntropyShape{.rows = 1, .classes = 2, .label_smoothing = 1}).ok());
  EXPECT_FALSE(device_->Create(MeanSquaredErrorShape{.rows = 1, .outputs = 0}).ok());
  EXPECT_FALSE(device_->CreateInputConversion(1, {{0}, {0}}).ok());
  EXPECT_FALSE(device_->CreateInputConversion(2, {{0, 0}, {1}}).ok());
  EXPECT_FALSE(device_->CreateInputConversion(3, {{0, 0}, {1, 1}}).ok());
  const size_t many = kMostScaledFeatures + 1;
  EXPECT_FALSE(
      device_->CreateInputConversion(many, {std::vector<float>(many), std::vector<float>(many, 1)}).ok());
}

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_DEVICE_DEVICE_CONFORMANCE_H_
