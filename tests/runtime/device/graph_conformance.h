// Conformance suite of every Device that captures graphs. device_conformance.h says how to instantiate a
// suite.
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

TEST_P(GraphConformance, GraphMayContainWorkOnAnotherStreamBetweenTwoEvents) {
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

TEST_P(GraphConformance, CaptureReturnsTheErrorOfTheCapturedWorkAndStreamStaysUsable) {
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

TEST_P(GraphConformance, WaitForTimedEventWaitsForTheLaunchThatRecordsIt) {
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

// Each launch drops elements by the row number that is in memory at that time. For some of these row numbers
// the element is kept, for others it is dropped.
TEST_P(GraphConformance, EachLaunchReadsTheRowNumberForDropoutFromMemory) {
  const auto dropout = device_->Create(DropoutShape{.rows = 1, .elements = 1, .seed = 5}).value();
  constexpr int64_t kBytes = sizeof(uint64_t);
  const auto next = device_->Allocate(kBytes, MemoryKind::kPinnedHost).value();
  const auto row = device_->Allocate(kBytes, MemoryKind::kDevice).value();
  const auto* const number = static_cast<const uint64_t*>(row->data());
  const auto rounded = device_->Allocate(sizeof(Bfloat16), MemoryKind::kDevice).value();
  auto* const half = static_cast<Bfloat16*>(rounded->data());
  const auto drop = [&]() -> absl::Status {
    if (device_->activation_type() == ElementType::kFloat32) {
      return dropout->Run(*stream_, number, first_->data(), second_->data());
    }
    TETHYS_RETURN_IF_ERROR(device_->RoundToBfloat16(*stream_, first_->floats(), half, 1));
    TETHYS_RETURN_IF_ERROR(dropout->Run(*stream_, number, half, half));
    return device_->WidenBfloat16(*stream_, half, second_->floats(), 1);
  };
  const auto work = [&]() -> absl::Status {
    TETHYS_RETURN_IF_ERROR(device_->CopyToDevice(*stream_, row->data(), next->data(), kBytes));
    TETHYS_RETURN_IF_ERROR(drop());
    return Fetch();
  };
  in() = 3;
  ASSERT_TRUE(device_->CopyToDevice(*stream_, first_->data(), in_->data(), sizeof(float)).ok());
  const auto graph = device_->Capture(*stream_, work).value();
  const RandomStream stream(5, RandomPurpose::kDropout, 0);
  int kept = 0;
  for (const uint64_t drawn : {7, 8, 7, 9, 10, 11, 12}) {
    *static_cast<uint64_t*>(next->data()) = drawn;
    const bool is_kept = ToUnitFloat(stream.Block(drawn / 4)[drawn % 4]) >= 0.5f;
    EXPECT_EQ(After(*graph, 3), is_kept ? 6.0f : 0.0f) << drawn;
    kept += is_kept;
  }
  EXPECT_GT(kept, 0);
  EXPECT_LT(kept, 7);
}

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_DEVICE_GRAPH_CONFORMANCE_H_
