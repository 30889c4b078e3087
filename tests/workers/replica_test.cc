// The lifetime of replicas: a replica outlives its strategies, and several replicas can share a process.
#include "workers/replica.h"

#include <vector>

#include "gmock/gmock.h"
#include "tests/testing/late_device.h"
#include "tests/workers/replica.h"

namespace tethys {
namespace {

using ::testing::ElementsAreArray;

// Makes steps [begin, end) on batches of kRows samples in the order of the dataset.
absl::Status Steps(TestReplica& test, int64_t begin, int64_t end) {
  Replica& replica = test.replica();
  for (int64_t step = begin; step < end; ++step) {
    const int64_t first = step % 3 * kRows;
    replica.loader().Announce(nullptr, {first, first + kRows});
    TETHYS_RETURN_IF_ERROR(replica.Step({.step = step, .sample_count = kRows, .global_sample_count = kRows}));
  }
  return replica.Finish();
}

std::vector<float> Part(Replica& replica, size_t part) {
  std::vector<float> out;
  EXPECT_TRUE(replica
                  .ReadPart(part, {0, replica.arena_size()},
                            [&](absl::Span<const float> values) {
                              out.assign(values.begin(), values.end());
                              return absl::OkStatus();
                            })
                  .ok());
  return out;
}

std::vector<float> TrainedAtOnce(std::unique_ptr<Device> device) {
  TestReplica test(std::move(device), 0, 1);
  EXPECT_TRUE(test.replica().Attach(test.MakeLocal()).ok());
  EXPECT_EQ(StatusText(Steps(test, 0, 6)), "OK");
  return test.Parameters();
}

// The second strategy starts with the optimizer slots (here the momentum) of the first.
std::vector<float> TrainedUnderTwoStrategies(std::unique_ptr<Device> device) {
  TestReplica test(std::move(device), 0, 1);
  Replica& replica = test.replica();
  EXPECT_TRUE(replica.Attach(test.MakeLocal()).ok());
  EXPECT_EQ(StatusText(Steps(test, 0, 3)), "OK");
  const std::vector<float> momentum = Part(replica, 1);
  replica.Detach();
  EXPECT_EQ(replica.Parts().size(), 1u);
  EXPECT_TRUE(replica.Attach(test.MakeLocal()).ok());
  EXPECT_TRUE(replica
                  .FillPart(1,
                            [&](absl::Span<float> values) {
                              std::copy(momentum.begin(), momentum.end(), values.begin());
                              return absl::OkStatus();
                            })
                  .ok());
  EXPECT_EQ(StatusText(Steps(test, 3, 6)), "OK");
  return test.Parameters();
}

TEST(Replica, TwoSuccessiveStrategiesTrainBitForBitLikeOne) {
  const std::vector<float> expected = TrainedAtOnce(CreateCpuDevice(1).value());
  EXPECT_EQ(TrainedUnderTwoStrategies(CreateCpuDevice(1).value()), expected);
  EXPECT_EQ(TrainedUnderTwoStrategies(testing::CreateLateDevice()), expected);
}

TEST(Replica, StepRecordsContinueUnderTheNextStrategy) {
  TestReplica test(CreateCpuDevice(1).value(), 0, 1);
  for (const int64_t begin : {0, 3}) {
    ASSERT_TRUE(test.replica().Attach(test.MakeLocal()).ok());
    ASSERT_TRUE(Steps(test, begin, begin + 3).ok());
    test.replica().Detach();
  }
  proto::StepRecords records;
  test.replica().recorder().Drain(records);
  std::vector<int64_t> steps;
  for (const proto::StepRecord& record : records.record()) steps.push_back(record.step());
  EXPECT_THAT(steps, ElementsAreArray({0, 1, 2, 3, 4, 5}));
}

TEST(Replica, SeveralReplicasInOneProcessTrainIndependently) {
  TestReplica first(CreateCpuDevice(1).value(), 0, 1), second(testing::CreateLateDevice(), 0, 1);
  ASSERT_TRUE(first.replica().Attach(first.MakeLocal()).ok());
  ASSERT_TRUE(second.replica().Attach(second.MakeLocal()).ok());
  for (int64_t step = 0; step < 6; ++step) {
    ASSERT_TRUE(Steps(first, step, step + 1).ok());
    ASSERT_TRUE(Steps(second, step, step + 1).ok());
  }
  const std::vector<float> expected = TrainedAtOnce(CreateCpuDevice(1).value());
  EXPECT_EQ(first.Parameters(), expected);
  EXPECT_EQ(second.Parameters(), expected);
}

TEST(Replica, ReplicaWithoutStrategyEvaluatesItsParameters) {
  TestReplica test(CreateCpuDevice(1).value(), 0, 1);
  const EvaluationSums sums = test.replica().Evaluate(RandomSamples(kSamples, 0), {0, kSamples}).value();
  EXPECT_EQ(sums.samples, kSamples);
  EXPECT_GT(sums.loss_sum, 0);
}

// A strategy that cannot be prepared.
class Refuses final : public Strategy {
 public:
  absl::StatusOr<StrategyTraits> Prepare(const StepArenas&, absl::Span<const Range>) override {
    return absl::UnavailableError("no servers");
  }
  absl::Status BeginStep(const StepInfo&) override { return absl::OkStatus(); }
  absl::Status GradientReady(int64_t, const Event&) override { return absl::OkStatus(); }
  absl::Status EnqueueEnd(int) override { return absl::OkStatus(); }
  absl::StatusOr<StepOutcome> AwaitEnd(const StepInfo&, const Event&) override { return StepOutcome(); }
  absl::Status Refresh() override { return absl::OkStatus(); }
  std::vector<absl::Span<float>> slots() override { return {}; }
};

TEST(Replica, StrategyThatFailsToPrepareIsNotAttached) {
  TestReplica test(CreateCpuDevice(1).value(), 0, 1);
  EXPECT_TRUE(absl::IsUnavailable(test.replica().Attach(std::make_unique<Refuses>())));
  EXPECT_EQ(test.replica().strategy(), nullptr);
  EXPECT_TRUE(test.replica().Attach(test.MakeLocal()).ok());
}

}  // namespace
}  // namespace tethys
