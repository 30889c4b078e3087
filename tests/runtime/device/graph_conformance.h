// Conformance suite of every Device that captures graphs. Instantiated like DeviceConformance.
#ifndef TETHYS_TESTS_RUNTIME_DEVICE_GRAPH_CONFORMANCE_H_
#define TETHYS_TESTS_RUNTIME_DEVICE_GRAPH_CONFORMANCE_H_

#include <memory>

#include "tests/runtime/device/graph_conformance_fixture.h"

namespace tethys {

TEST_P(GraphConformance, EachLaunchReadsCurrentMemory) {
  ASSERT_TRUE(device_->captures());
  in() = 1;
  const auto graph = device_->Capture(*stream_, [&] { return BringAndFetch(); }).value();
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(out(), 0);
  EXPECT_EQ(After(*graph, 2), 2);
  EXPECT_EQ(After(*graph, 3), 3);
}

TEST_P(GraphConformance, GraphMayUseAnotherStreamBetweenTwoEvents) {
  const auto brought = NewEvent(), passed_on = NewEvent();
  const auto work = [&]() -> absl::Status {
    TETHYS_RETURN_IF_ERROR(Bring());
    TETHYS_RETURN_IF_ERROR(brought->Record(*stream_));
    TETHYS_RETURN_IF_ERROR(brought->Wait(*other_));
    TETHYS_RETURN_IF_ERROR(PassOn(*other_));
    TETHYS_RETURN_IF_ERROR(passed_on->Record(*other_));
    TETHYS_RETURN_IF_ERROR(passed_on->Wait(*stream_));
    return Fetch();
  };
  const auto graph = device_->Capture(*stream_, work).value();
  for (const float number : {5, 6, 7}) EXPECT_EQ(After(*graph, number), number);
}

TEST_P(GraphConformance, CaptureFailsIfAJoinedStreamIsNotAwaited) {
  const auto brought = NewEvent();
  const auto work = [&]() -> absl::Status {
    TETHYS_RETURN_IF_ERROR(brought->Record(*stream_));
    TETHYS_RETURN_IF_ERROR(brought->Wait(*other_));
    return PassOn(*other_);
  };
  EXPECT_FALSE(device_->Capture(*stream_, work).ok());
}

TEST_P(GraphConformance, CaptureReturnsErrorOfWorkAndStreamStaysUsable) {
  const auto fails = [&]() -> absl::Status {
    TETHYS_RETURN_IF_ERROR(Bring());
    return absl::OutOfRangeError("no more");
  };
  EXPECT_EQ(device_->Capture(*stream_, fails).status(), absl::OutOfRangeError("no more"));
  in() = 8;
  ASSERT_TRUE(BringAndFetch().ok());
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(out(), 8);
}

TEST_P(GraphConformance, TimedEventsHappenInEveryLaunch) {
  const auto begin = device_->CreateTimedEvent().value(), end = device_->CreateTimedEvent().value();
  const auto work = [&]() -> absl::Status {
    TETHYS_RETURN_IF_ERROR(begin->Record(*stream_));
    TETHYS_RETURN_IF_ERROR(BringAndFetch());
    return end->Record(*stream_);
  };
  const auto graph = device_->Capture(*stream_, work).value();
  for (const float number : {1, 2}) {
    EXPECT_EQ(After(*graph, number), number);
    EXPECT_TRUE(end->Happened().value());
    EXPECT_GT(end->Since(*begin).value(), 0);
  }
}

TEST_P(GraphConformance, WaitForTimedEventAfterLaunchSeesThatLaunch) {
  const auto brought = device_->CreateTimedEvent().value();
  const auto work = [&]() -> absl::Status {
    TETHYS_RETURN_IF_ERROR(Bring());
    return brought->Record(*stream_);
  };
  const auto graph = device_->Capture(*stream_, work).value();
  for (const float number : {3, 4, 5}) {
    in() = number;
    ASSERT_TRUE(graph->Launch(*stream_).ok());
    ASSERT_TRUE(brought->Wait(*other_).ok());
    ASSERT_TRUE(device_->CopyToHost(*other_, out_->data(), first_->data(), sizeof(float)).ok());
    ASSERT_TRUE(other_->Synchronize().ok());
    EXPECT_EQ(out(), number);
  }
}

TEST_P(GraphConformance, EachLaunchDrawsTheRandomNumbersOfTheStepInMemory) {
  const auto uniform = device_->CreateUniform(1, /*seed=*/5, RandomPurpose::kTest).value();
  constexpr int64_t kBytes = sizeof(RandomPosition);
  const auto next = device_->Allocate(kBytes, MemoryKind::kPinnedHost).value();
  const auto position = device_->Allocate(kBytes, MemoryKind::kDevice).value();
  const auto work = [&]() -> absl::Status {
    TETHYS_RETURN_IF_ERROR(device_->CopyToDevice(*stream_, position->data(), next->data(), kBytes));
    TETHYS_RETURN_IF_ERROR(
        uniform->Run(*stream_, static_cast<RandomPosition*>(position->data()), second_->floats()));
    return Fetch();
  };
  const auto graph = device_->Capture(*stream_, work).value();
  for (const uint64_t step : {7, 8, 7}) {
    static_cast<RandomPosition*>(next->data())->step = step;
    EXPECT_EQ(After(*graph, 0), ToUnitFloat(RandomStream(5, RandomPurpose::kTest, step).Next32()));
  }
}

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_DEVICE_GRAPH_CONFORMANCE_H_
