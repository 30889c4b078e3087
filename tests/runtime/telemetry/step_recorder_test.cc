#include "runtime/telemetry/step_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace tethys {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A clock that moves only by Advance.
class HandClock final : public Clock {
 public:
  Nanoseconds Now() const override { return now_; }
  void Advance(Nanoseconds by) { now_ += by; }

 private:
  Nanoseconds now_ = 1000;
};

class StepRecorderTest : public testing::Test {
 protected:
  void Spend(StepRecorder& recorder, Phase phase, Nanoseconds duration) {
    clock_.Advance(duration);
    recorder.Mark(phase);
  }
  // A step that takes no time.
  static absl::Status Step(StepRecorder& recorder, int64_t number) {
    TETHYS_RETURN_IF_ERROR(recorder.BeginStep({.step = number, .epoch = 0, .sample_begin = 0, .samples = 1}));
    recorder.EndStep({});
    return absl::OkStatus();
  }
  static std::vector<int64_t> DrainSteps(StepRecorder& recorder, int64_t limit = 1024) {
    proto::StepRecords records;
    recorder.Drain(records, limit);
    std::vector<int64_t> steps;
    for (const proto::StepRecord& record : records.record()) steps.push_back(record.step());
    return steps;
  }

  HandClock clock_;
};

TEST_F(StepRecorderTest, RecordHoldsTheTimeOfEachPhase) {
  StepRecorder recorder(clock_, 3, 2);
  ASSERT_TRUE(recorder.BeginStep({.step = 7, .epoch = 1, .sample_begin = 896, .samples = 128}).ok());
  Spend(recorder, Phase::kData, 10);
  Spend(recorder, Phase::kForward, 200);
  clock_.Advance(100);
  recorder.BucketReady(0);
  clock_.Advance(50);
  recorder.BucketReady(1);
  Spend(recorder, Phase::kBackward, 30);
  Spend(recorder, Phase::kExchange, 500);
  clock_.Advance(5);
  recorder.EndStep(
      {.loss_sum = 2.5, .correct = 97, .bytes_out = 11, .bytes_in = 12, .staleness = 4, .update_ns = 60});

  proto::StepRecords records;
  ASSERT_EQ(recorder.Drain(records), 1);
  const proto::StepRecord& record = records.record(0);
  EXPECT_EQ(record.rank(), 3);
  EXPECT_EQ(record.step(), 7);
  EXPECT_EQ(record.epoch(), 1);
  EXPECT_EQ(record.sample_begin(), 896);
  EXPECT_EQ(record.samples(), 128);
  EXPECT_EQ(record.begin_ns(), 1000);
  EXPECT_EQ(record.data_ns(), 10);
  EXPECT_EQ(record.forward_ns(), 200);
  EXPECT_EQ(record.backward_ns(), 180);
  EXPECT_EQ(record.exchange_ns(), 440) << "the optimizer's 60 ns are no exchange";
  EXPECT_EQ(record.update_ns(), 60);
  EXPECT_EQ(record.total_ns(), 895);
  EXPECT_THAT(record.bucket_ready_ns(), ElementsAre(310, 360));
  EXPECT_EQ(record.loss_sum(), 2.5);
  EXPECT_EQ(record.correct(), 97);
  EXPECT_EQ(record.bytes_out(), 11);
  EXPECT_EQ(record.bytes_in(), 12);
  EXPECT_EQ(record.staleness(), 4);
}

TEST_F(StepRecorderTest, TimesOfAPhaseThatIsMarkedTwiceAreAddedUp) {
  StepRecorder recorder(clock_, 0, 0);
  ASSERT_TRUE(recorder.BeginStep({}).ok());
  Spend(recorder, Phase::kForward, 10);
  Spend(recorder, Phase::kBackward, 20);
  Spend(recorder, Phase::kForward, 30);
  recorder.EndStep({});
  proto::StepRecords records;
  recorder.Drain(records);
  EXPECT_EQ(records.record(0).forward_ns(), 40);
}

TEST_F(StepRecorderTest, WaitReportedInsideAPhaseCountsAsExchange) {
  StepRecorder recorder(clock_, 0, 0);
  ASSERT_TRUE(recorder.BeginStep({}).ok());
  clock_.Advance(10);
  const Nanoseconds begin = clock_.Now();
  clock_.Advance(200);
  recorder.CountAsExchange(begin);
  Spend(recorder, Phase::kForward, 30);
  Spend(recorder, Phase::kExchange, 1000);
  recorder.EndStep({});
  proto::StepRecords records;
  recorder.Drain(records);
  EXPECT_EQ(records.record(0).forward_ns(), 40);
  EXPECT_EQ(records.record(0).exchange_ns(), 1200);
}

TEST_F(StepRecorderTest, PhaseTimesOfTheDeviceReplaceTimesMeasuredOnTheHost) {
  StepRecorder recorder(clock_, 0, 0);
  ASSERT_TRUE(recorder.BeginStep({}).ok());
  Spend(recorder, Phase::kData, 10);
  Spend(recorder, Phase::kForward, 1);
  Spend(recorder, Phase::kBackward, 1);
  Spend(recorder, Phase::kExchange, 1);
  recorder.EndStep({.update_ns = 1, .on_device = DeviceTimes{200, 300, 50, 20}});
  proto::StepRecords records;
  recorder.Drain(records);
  const proto::StepRecord& record = records.record(0);
  EXPECT_EQ(record.data_ns(), 10);
  EXPECT_EQ(record.forward_ns(), 200);
  EXPECT_EQ(record.backward_ns(), 300);
  EXPECT_EQ(record.exchange_ns(), 30);
  EXPECT_EQ(record.update_ns(), 20);
  EXPECT_EQ(record.total_ns(), 13);
}

TEST_F(StepRecorderTest, RecordHoldsNoValueOfAnEarlierStep) {
  StepRecorder recorder(clock_, 0, 1, /*capacity=*/1);
  ASSERT_TRUE(recorder.BeginStep({}).ok());
  Spend(recorder, Phase::kData, 10);
  recorder.BucketReady(0);
  recorder.EndStep(
      {.loss_sum = 1, .correct = 1, .bytes_out = 1, .bytes_in = 1, .staleness = 1, .update_ns = 1});
  EXPECT_THAT(DrainSteps(recorder), ElementsAre(0));
  ASSERT_TRUE(Step(recorder, 0).ok());
  proto::StepRecords records;
  recorder.Drain(records);
  EXPECT_EQ(records.record(0).data_ns(), 0);
  EXPECT_EQ(records.record(0).bytes_out(), 0);
  EXPECT_THAT(records.record(0).bucket_ready_ns(), IsEmpty());
}

TEST_F(StepRecorderTest, StepIsDrainedOnlyOnceItHasEnded) {
  StepRecorder recorder(clock_, 0, 0);
  ASSERT_TRUE(recorder.BeginStep({}).ok());
  EXPECT_THAT(DrainSteps(recorder), IsEmpty());
  recorder.EndStep({});
  EXPECT_THAT(DrainSteps(recorder), ElementsAre(0));
  EXPECT_THAT(DrainSteps(recorder), IsEmpty());
}

TEST_F(StepRecorderTest, AbandonedStepLeavesNoRecordAndFreesItsPlaceInTheRing) {
  StepRecorder recorder(clock_, 0, 0, /*capacity=*/2);
  ASSERT_TRUE(Step(recorder, 4).ok());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(recorder.BeginStep({.step = 5}).ok()) << "the ring has room for one more step";
    EXPECT_TRUE(recorder.computing());
    recorder.AbandonSteps();
    EXPECT_FALSE(recorder.computing());
  }
  ASSERT_TRUE(Step(recorder, 6).ok());
  EXPECT_THAT(DrainSteps(recorder), ElementsAre(4, 6));
}

TEST_F(StepRecorderTest, OverlappingStepsEndOldestFirstAndTotalsAddUp) {
  StepRecorder recorder(clock_, 0, 0);
  ASSERT_TRUE(recorder.BeginStep({.step = 0}).ok());
  clock_.Advance(10);
  ASSERT_TRUE(recorder.BeginStep({.step = 1}).ok());
  Spend(recorder, Phase::kData, 20);
  recorder.EndStep({.correct = 5});
  clock_.Advance(40);
  recorder.EndStep({.correct = 6});
  proto::StepRecords records;
  ASSERT_EQ(recorder.Drain(records), 2);
  EXPECT_EQ(records.record(0).correct(), 5);
  EXPECT_EQ(records.record(0).total_ns(), 30);
  EXPECT_EQ(records.record(1).correct(), 6);
  EXPECT_EQ(records.record(1).data_ns(), 20);
  EXPECT_EQ(records.record(1).total_ns(), 40);
}

TEST_F(StepRecorderTest, DrainReturnsAtMostItsLimitAndTheNextDrainContinuesThere) {
  StepRecorder recorder(clock_, 0, 0, /*capacity=*/4);
  for (int64_t step = 0; step < 4; ++step) ASSERT_TRUE(Step(recorder, step).ok());
  EXPECT_THAT(DrainSteps(recorder, 3), ElementsAre(0, 1, 2));
  ASSERT_TRUE(Step(recorder, 4).ok());
  EXPECT_THAT(DrainSteps(recorder, 3), ElementsAre(3, 4));
}

TEST_F(StepRecorderTest, RingThatStaysFullFailsTheNextStepAndLosesNoRecord) {
  StepRecorder recorder(clock_, 5, 0, /*capacity=*/2, /*patience=*/kMillisecond);
  ASSERT_TRUE(Step(recorder, 0).ok());
  ASSERT_TRUE(Step(recorder, 1).ok());
  const absl::Status status = Step(recorder, 2);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.message(), HasSubstr("rank 5: 2 step records wait"));
  EXPECT_THAT(DrainSteps(recorder), ElementsAre(0, 1));
  EXPECT_TRUE(Step(recorder, 2).ok());
}

TEST_F(StepRecorderTest, FullRingWithoutAReaderKeepsTheNewestRecords) {
  StepRecorder recorder(clock_, 5, 0, /*capacity=*/2, /*patience=*/kMillisecond, nullptr,
                        UndrainedRecords::kDropOldest);
  for (int64_t step = 0; step < 7; ++step) ASSERT_TRUE(Step(recorder, step).ok());
  EXPECT_THAT(DrainSteps(recorder), ElementsAre(5, 6));
}

TEST_F(StepRecorderTest, RingThatIsHalfFull_RequestsADrainOnce) {
  int asked = 0;
  StepRecorder recorder(clock_, 0, 0, /*capacity=*/4, /*patience=*/kMillisecond, [&asked] { ++asked; });
  for (int round = 1; round <= 3; ++round) {
    ASSERT_TRUE(Step(recorder, 0).ok());
    EXPECT_EQ(asked, round - 1);
    for (int64_t step = 1; step < 4; ++step) ASSERT_TRUE(Step(recorder, step).ok());
    EXPECT_EQ(asked, round);
    EXPECT_THAT(DrainSteps(recorder), ElementsAre(0, 1, 2, 3));
  }
}

TEST_F(StepRecorderTest, RecorderReportsComputingUntilTheExchangeOfTheStepBegins) {
  StepRecorder recorder(clock_, 0, 0);
  EXPECT_FALSE(recorder.computing());
  ASSERT_TRUE(recorder.BeginStep({}).ok());
  EXPECT_TRUE(recorder.computing());
  recorder.BeginExchange();
  EXPECT_FALSE(recorder.computing());
  recorder.EndStep({});
}

TEST_F(StepRecorderTest, FullRingBlocksTheTrainingThreadUntilDrained) {
  constexpr int64_t kSteps = 20000;
  const MonotonicClock clock;
  StepRecorder recorder(clock, 0, 3, /*capacity=*/8);
  std::thread training([&recorder] {
    for (int64_t step = 0; step < kSteps; ++step) {
      ASSERT_TRUE(
          recorder.BeginStep({.step = step, .epoch = 0, .sample_begin = 10 * step, .samples = 10}).ok());
      recorder.BucketReady(static_cast<int>(step % 3));
      recorder.EndStep({});
    }
  });
  int64_t next = 0;
  while (next < kSteps) {
    proto::StepRecords records;
    recorder.Drain(records, 5);
    for (const proto::StepRecord& record : records.record()) {
      ASSERT_EQ(record.step(), next);
      ASSERT_EQ(record.sample_begin(), 10 * next);
      ASSERT_EQ(record.bucket_ready_ns_size(), next % 3 + 1);
      ++next;
    }
  }
  training.join();
  EXPECT_THAT(DrainSteps(recorder), IsEmpty());
}

}  // namespace
}  // namespace tethys
