// Tests that a replica leaves a step whose exchange fails, and trains on under the next strategy.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/testing/late_device.h"
#include "tests/workers/interrupted_strategy.h"
#include "tests/workers/replica.h"

namespace tethys {
namespace {

using At = InterruptedStrategy::At;

// A mirrored strategy of one worker. The host drives its exchange.
std::unique_ptr<Strategy> MakeAlone(TestReplica& replica, TestRing& ring) {
  std::unique_ptr<Strategy> sums = replica.MakeMirrored(ring.Create(0).value());
  return replica.device().reads_host_memory() ? std::move(sums)
                                              : replica.Staged(std::move(sums), replica.MakeUpdate());
}

std::vector<int64_t> DrainSteps(TestReplica& replica) {
  proto::StepRecords records;
  replica.replica().recorder().Drain(records);
  std::vector<int64_t> steps;
  for (const proto::StepRecord& record : records.record()) steps.push_back(record.step());
  return steps;
}

TEST(AbandonedStep, AbandonedStepIsRepeatedUnderTheNextStrategy) {
  TestRing ring(1);
  for (const At at : {At::kBeginStep, At::kGradientReady, At::kEnqueueEnd}) {
    for (std::unique_ptr<Device>& device : BothDevices()) {
      SCOPED_TRACE(absl::StrCat(device->Describe(), " ", static_cast<int>(at)));
      TestReplica left(std::move(device), 0, 1, {}, NormalisedModel());
      TestReplica steady(CreateCpuDevice(1).value(), 0, 1, {}, NormalisedModel());
      const std::vector<float> before = left.Parameters();
      const std::vector<float> statistics = left.replica().ReadStatistics().value();
      ASSERT_TRUE(
          left.replica().Attach(std::make_unique<InterruptedStrategy>(MakeAlone(left, ring), at)).ok());
      EXPECT_TRUE(absl::IsAborted(left.Steps(0, 3)));
      EXPECT_FALSE(left.replica().made_step().has_value());
      left.replica().Detach();
      EXPECT_EQ(left.Parameters(), before);
      EXPECT_EQ(left.replica().ReadStatistics().value(), statistics);

      ASSERT_TRUE(left.replica().Attach(MakeAlone(left, ring), /*warm_up=*/false).ok());
      ASSERT_TRUE(steady.replica().Attach(MakeAlone(steady, ring)).ok());
      EXPECT_EQ(StatusText(left.Steps(0, 3)), "OK");
      EXPECT_EQ(StatusText(steady.Steps(0, 3)), "OK");
      EXPECT_EQ(left.replica().made_step(), 2);
      EXPECT_EQ(left.Parameters(), steady.Parameters());
      EXPECT_EQ(left.replica().ReadStatistics().value(), steady.replica().ReadStatistics().value());
      EXPECT_THAT(DrainSteps(left), ::testing::ElementsAre(0, 1, 2));
    }
  }
}

TEST(AbandonedStep, StatisticsOfAComputedButAbandonedStepIncludeItsBatch) {
  TestRing ring(1);
  for (std::unique_ptr<Device>& device : BothDevices()) {
    SCOPED_TRACE(device->Describe());
    TestReplica left(std::move(device), 0, 1, {}, NormalisedModel());
    TestReplica made(CreateCpuDevice(1).value(), 0, 1, {}, NormalisedModel());
    ASSERT_TRUE(made.replica().Attach(MakeAlone(made, ring)).ok());
    ASSERT_TRUE(made.Steps(0, 1).ok());
    EXPECT_FALSE(made.replica().computed_step().has_value());
    const std::vector<float> before = left.replica().ReadStatistics().value();
    ASSERT_TRUE(left.replica()
                    .Attach(std::make_unique<InterruptedStrategy>(MakeAlone(left, ring), At::kEnqueueEnd))
                    .ok());
    EXPECT_TRUE(absl::IsAborted(left.Steps(0, 1)));
    ASSERT_EQ(left.replica().computed_step(), 0);
    EXPECT_EQ(left.replica().StatisticsOfComputedStep().value(), made.replica().ReadStatistics().value());
    EXPECT_EQ(left.replica().ReadStatistics().value(), before);
    EXPECT_FALSE(left.replica().computed_step().has_value());
  }
}

TEST(AbandonedStep, StepThatFailsBeforeItsGradientsAreCompleteDoesNotCountAsComputed) {
  TestRing ring(1);
  for (const At at : {At::kBeginStep, At::kGradientReady}) {
    TestReplica left(CreateCpuDevice(1).value(), 0, 1, {}, NormalisedModel());
    ASSERT_TRUE(left.replica().Attach(std::make_unique<InterruptedStrategy>(MakeAlone(left, ring), at)).ok());
    EXPECT_TRUE(absl::IsAborted(left.Steps(0, 1)));
    EXPECT_FALSE(left.replica().computed_step().has_value());
  }
}

proto::EvaluationDone Evaluated(TestReplica& replica) {
  return replica.replica().Evaluate(RandomSamples(kSamples, 0), {0, kSamples}).value();
}

TEST(EndedEvaluation, AbortedEvaluationLeavesNothingForTheNextEvaluation) {
  TestReplica whole(CreateCpuDevice(1).value(), 0, 1);
  for (std::unique_ptr<Device>& device : BothDevices()) {
    SCOPED_TRACE(device->Describe());
    int batches = 0;
    Replica::Options options;
    options.may_evaluate = [&batches] {
      return ++batches == 2 ? absl::AbortedError("the group was halted") : absl::OkStatus();
    };
    TestReplica ended(std::move(device), 0, 1, options);
    EXPECT_TRUE(
        absl::IsAborted(ended.replica().Evaluate(RandomSamples(kSamples, 0), {0, kSamples}).status()));
    EXPECT_EQ(batches, 2);
    EXPECT_EQ(Evaluated(ended).SerializeAsString(), Evaluated(whole).SerializeAsString());
  }
}

TEST(FitRows, ReplicaFittedToAnotherNumberOfRowsTrainsLikeOneCreatedWithIt) {
  std::vector<std::vector<float>> results;
  for (const int64_t rows : {kRows, kRows / 2}) {
    TestReplica test(CreateCpuDevice(1).value(), 0, 1, {}, NormalisedModel(), /*has_data=*/true, rows);
    Replica& replica = test.replica();
    const proto::EvaluationDone before = Evaluated(test);
    ASSERT_TRUE(replica.Attach(test.MakeLocal()).ok());
    replica.Detach();
    ASSERT_TRUE(replica.FitRows(kRows).ok());
    ASSERT_TRUE(replica.Attach(test.MakeLocal()).ok());
    EXPECT_EQ(replica.plan().rows(), kRows);
    EXPECT_EQ(replica.plan().micro_batches(), 1);
    EXPECT_EQ(Evaluated(test).loss_sum(), before.loss_sum()) << "the plan is compiled again";
    ASSERT_EQ(StatusText(test.Steps(0, 3)), "OK");
    results.push_back(test.Parameters());
  }
  EXPECT_EQ(results[0], results[1]);
}

}  // namespace
}  // namespace tethys
