// Tests that the late device, which does all work as late as allowed, keeps the contract of Device.
#include "tests/testing/late_device.h"

#include "tests/runtime/device/bfloat16_conformance.h"
#include "tests/runtime/device/graph_conformance.h"
#include "tests/runtime/device/stream_conformance.h"

namespace tethys {
namespace {

const DeviceCase kLate = {[] { return testing::CreateLateDevice(); }, kFloat32};
INSTANTIATE_TEST_SUITE_P(Late, DeviceConformance, ::testing::Values(kLate));
INSTANTIATE_TEST_SUITE_P(Late, Bfloat16Conformance, ::testing::Values(kLate));
INSTANTIATE_TEST_SUITE_P(Late, GraphConformance, ::testing::Values(kLate));

class LateDevice : public ::testing::Test {
 protected:
  const std::unique_ptr<Device> device_ = testing::CreateLateDevice();
  const std::unique_ptr<Stream> stream_ = device_->CreateStream().value();
  absl::Status Capture(absl::FunctionRef<absl::Status()> work) {
    return device_->Capture(*stream_, work).status();
  }
};

TEST_F(LateDevice, CaptureRefusesWaitsAllocationsAndPageableMemory) {
  const auto memory = device_->Allocate(4, MemoryKind::kDevice).value();
  float pageable = 0;
  EXPECT_FALSE(Capture([&] { return stream_->Synchronize(); }).ok());
  EXPECT_FALSE(Capture([&] { return device_->Allocate(4, MemoryKind::kDevice).status(); }).ok());
  EXPECT_FALSE(Capture([&] { return device_->CopyToDevice(*stream_, memory->data(), &pageable, 4); }).ok());
  EXPECT_FALSE(Capture([&] { return device_->CopyToHost(*stream_, &pageable, memory->data(), 4); }).ok());
}

TEST_F(LateDevice, EventRecordedOutsideACaptureCannotBeAwaitedInsideOrViceVersa) {
  const auto outside = device_->CreateEvent().value(), inside = device_->CreateEvent().value();
  ASSERT_TRUE(outside->Record(*stream_).ok());
  EXPECT_FALSE(Capture([&] { return outside->Wait(*stream_); }).ok());
  ASSERT_TRUE(Capture([&] { return inside->Record(*stream_); }).ok());
  EXPECT_FALSE(inside->Wait(*stream_).ok());
  EXPECT_FALSE(inside->Happened().ok());
}

}  // namespace
}  // namespace tethys
