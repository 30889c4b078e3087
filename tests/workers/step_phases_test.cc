#include "workers/step_phases.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/late_device.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using testing::kWorkTime;

// Every piece of work on the simulated device (tests/testing/late_device.h) takes kWorkTime, and so does the
// recording of an event.
class StepPhasesTest : public ::testing::Test {
 protected:
  std::unique_ptr<StepPhases> Create(bool updates_here = true) {
    auto phases = StepPhases::Create(*device_, *stream_, recorder_).value();
    phases->set_updates_here(updates_here);
    return phases;
  }
  absl::Status Enqueue(int pieces) {
    for (int i = 0; i < pieces; ++i) testing::EnqueueWork(*stream_, [] { return absl::OkStatus(); });
    return absl::OkStatus();
  }
  // Enqueues a step whose phases have these numbers of pieces of work. The update is the last part of the
  // exchange phase.
  void EnqueueStep(StepPhases& phases, const StepInfo& step, int forward, int backward, int exchange,
                   int update) {
    ASSERT_TRUE(recorder_.BeginStep({}).ok());
    phases.Begin(step);
    ASSERT_TRUE(phases.Run(Phase::kData, [&] { return Enqueue(1); }).ok());
    ASSERT_TRUE(phases.Run(Phase::kForward, [&] { return Enqueue(forward); }).ok());
    ASSERT_TRUE(phases.Run(Phase::kBackward, [&] { return Enqueue(backward); }).ok());
    const auto finish = [&]() -> absl::Status {
      TETHYS_RETURN_IF_ERROR(Enqueue(exchange));
      TETHYS_RETURN_IF_ERROR(phases.update_events()[step.parity]->Record(*stream_));
      return Enqueue(update);
    };
    ASSERT_TRUE(phases.Run(Phase::kExchange, finish).ok());
  }

  MonotonicClock clock_;
  StepRecorder recorder_{clock_, 0, 0};
  std::vector<std::string> ranges_;
  const std::unique_ptr<Device> device_ = testing::CreateLateDevice({.ranges = &ranges_});
  const std::unique_ptr<Stream> stream_ = device_->CreateStream().value();
};

TEST_F(StepPhasesTest, TimesOnTheDeviceAreMeasuredForEachPhase) {
  const auto phases = Create();
  const StepInfo step{.step = 7, .parity = 1};
  EnqueueStep(*phases, step, 3, 2, 1, 4);
  ASSERT_TRUE(stream_->Synchronize().ok());
  const DeviceTimes times = phases->OnDevice(step).value().value();
  EXPECT_EQ(times.forward_ns, (3 + 1) * kWorkTime);
  EXPECT_EQ(times.backward_ns, (2 + 1) * kWorkTime);
  EXPECT_EQ(times.exchange_ns, (1 + 1 + 4 + 1) * kWorkTime);
  EXPECT_EQ(times.update_ns, (4 + 1) * kWorkTime);
}

TEST_F(StepPhasesTest, TwoStepsInFlightHaveSeparateTimes) {
  const auto phases = Create();
  const StepInfo first{.step = 0, .parity = 0}, second{.step = 1, .parity = 1};
  EnqueueStep(*phases, first, 10, 1, 1, 1);
  EnqueueStep(*phases, second, 20, 1, 1, 1);
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(phases->OnDevice(first).value()->forward_ns, 11 * kWorkTime);
  EXPECT_EQ(phases->OnDevice(second).value()->forward_ns, 21 * kWorkTime);
}

TEST_F(StepPhasesTest, PhaseTimesOfAGraphComeFromItsLastLaunch) {
  const auto phases = Create(/*updates_here=*/false);
  const StepInfo step{.step = 0};
  EnqueueStep(*phases, step, 1, 1, 1, 1);
  const auto graph =
      device_->Capture(*stream_, [&] { return phases->Run(Phase::kForward, [&] { return Enqueue(5); }); })
          .value();
  ASSERT_TRUE(phases->Run(Phase::kData, [] { return absl::OkStatus(); }).ok());
  ASSERT_TRUE(graph->Launch(*stream_).ok());
  ASSERT_TRUE(phases->Run(Phase::kBackward, [] { return absl::OkStatus(); }).ok());
  ASSERT_TRUE(phases->Run(Phase::kExchange, [] { return absl::OkStatus(); }).ok());
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(phases->OnDevice(step).value()->forward_ns, 6 * kWorkTime);
}

TEST_F(StepPhasesTest, UpdateMadeOutsideTheDeviceIsRecordedWithZeroDeviceTime) {
  const auto phases = Create(/*updates_here=*/false);
  const StepInfo step{.step = 0};
  EnqueueStep(*phases, step, 1, 1, 1, 1);
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(phases->OnDevice(step).value()->update_ns, 0);
}

TEST_F(StepPhasesTest, TimesOfAnUnfinishedStepAreAnError) {
  const auto phases = Create();
  EnqueueStep(*phases, {}, 1, 1, 1, 1);
  EXPECT_FALSE(phases->OnDevice({}).ok());
}

TEST_F(StepPhasesTest, EachPhaseIsARangeWithItsNameAndStepInTheProfiler) {
  const auto phases = Create();
  EnqueueStep(*phases, {.step = 7}, 1, 1, 1, 1);
  EXPECT_THAT(ranges_, ElementsAre("data 7", "", "forward 7", "", "backward 7", "", "exchange 7", ""));
}

TEST_F(StepPhasesTest, FailedPhaseEndsItsProfilerRange) {
  const auto phases = Create();
  EXPECT_FALSE(phases->Run(Phase::kData, [] { return absl::AbortedError("gone"); }).ok());
  EXPECT_THAT(ranges_, ElementsAre("data 0", ""));
}

TEST_F(StepPhasesTest, CpuHasNoDeviceTimes) {
  const auto cpu = CreateCpuDevice(1).value();
  const auto stream = cpu->CreateStream().value();
  const auto phases = StepPhases::Create(*cpu, *stream, recorder_).value();
  EXPECT_EQ(phases->update_events(), UpdateEvents());
  ASSERT_TRUE(recorder_.BeginStep({}).ok());
  EXPECT_TRUE(phases->Run(Phase::kForward, [] { return absl::OkStatus(); }).ok());
  EXPECT_EQ(phases->OnDevice({}).value(), std::nullopt);
}

}  // namespace
}  // namespace tethys
