// Tests of DeviceConformance for streams: events, their times, and copies on the device.
#ifndef TETHYS_TESTS_RUNTIME_DEVICE_STREAM_CONFORMANCE_H_
#define TETHYS_TESTS_RUNTIME_DEVICE_STREAM_CONFORMANCE_H_

#include <vector>

#include "tests/runtime/device/device_conformance.h"

namespace tethys {

TEST_P(DeviceConformance, EventHasHappenedOnceAStreamThatWaitsForItIsSynchronized) {
  auto event = device_->CreateEvent().value();
  auto other = device_->CreateStream().value();
  ASSERT_TRUE(event->Record(*stream_).ok());
  ASSERT_TRUE(event->Wait(*other).ok());
  ASSERT_TRUE(other->Synchronize().ok());
  EXPECT_TRUE(event->Happened().value());
}

TEST_P(DeviceConformance, WaitForUnrecordedEventDoesNotBlock) {
  auto event = device_->CreateEvent().value();
  ASSERT_TRUE(event->Wait(*stream_).ok());
  EXPECT_TRUE(stream_->Synchronize().ok());
}

TEST_P(DeviceConformance, TimeBetweenTwoTimedEventsIsPositive) {
  const auto begin = device_->CreateTimedEvent().value(), middle = device_->CreateTimedEvent().value(),
             end = device_->CreateTimedEvent().value();
  auto from = Floats(RandomFloats(1 << 20, 1)), to = Poisoned(1 << 20);
  ASSERT_TRUE(begin->Record(*stream_).ok());
  ASSERT_TRUE(device_->CopyOnDevice(*stream_, to.data(), from.data(), 4 << 20).ok());
  ASSERT_TRUE(middle->Record(*stream_).ok());
  ASSERT_TRUE(device_->CopyOnDevice(*stream_, to.data(), from.data(), 4 << 20).ok());
  ASSERT_TRUE(end->Record(*stream_).ok());
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_GT(middle->Since(*begin).value(), 0);
  EXPECT_GT(end->Since(*begin).value(), middle->Since(*begin).value());
}

TEST_P(DeviceConformance, CopyOnDeviceCopiesExactlyTheGivenBytes) {
  const std::vector<float> values = RandomFloats(1000, 1);
  auto from = Floats(values), to = Poisoned(1000);
  ASSERT_TRUE(device_->CopyOnDevice(*stream_, to.data(), from.data(), 999 * sizeof(float)).ok());
  ASSERT_TRUE(device_->CopyOnDevice(*stream_, to.data(), from.data(), 0).ok());
  const std::vector<float> copied = to.Host();
  EXPECT_EQ(std::vector<float>(copied.begin(), copied.end() - 1),
            std::vector<float>(values.begin(), values.end() - 1));
  EXPECT_TRUE(std::isnan(copied.back()));
}

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_DEVICE_STREAM_CONFORMANCE_H_
