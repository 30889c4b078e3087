// Tests that attaching a strategy to a replica computes the gradients of an empty batch, so that the first
// step takes no longer than the other steps, and that this computation changes no result.
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "tests/testing/late_device.h"
#include "tests/workers/steps_by_hand.h"

namespace tethys {
namespace {

// The time that the replica's stream needs for the work enqueued by `enqueue`.
Nanoseconds TimeOnStream(Replica& replica, absl::FunctionRef<absl::Status()> enqueue) {
  const std::unique_ptr<TimedEvent> begin = replica.device().CreateTimedEvent().value();
  const std::unique_ptr<TimedEvent> end = replica.device().CreateTimedEvent().value();
  EXPECT_TRUE(begin->Record(replica.stream()).ok());
  EXPECT_EQ(StatusText(enqueue()), "OK");
  EXPECT_TRUE(end->Record(replica.stream()).ok());
  EXPECT_TRUE(replica.stream().Synchronize().ok());
  return end->Since(*begin).value();
}

TEST(ReplicaWarmUp, AttachingAStrategyOnAnAsynchronousDeviceComputesGradientsOnce) {
  TestReplica test(testing::CreateLateDevice(), 0, 1);
  Replica& replica = test.replica();
  const Nanoseconds attached = TimeOnStream(replica, [&] { return replica.Attach(test.MakeLocal()); });
  const Nanoseconds gradients = TimeOnStream(replica, [&]() -> absl::Status {
    TETHYS_RETURN_IF_ERROR(replica.plan().Forward());
    return replica.plan().Backward([](int64_t, const Event&) { return absl::OkStatus(); });
  });
  EXPECT_GT(gradients, 0);
  EXPECT_GE(attached, gradients);
  EXPECT_LT(attached, 2 * gradients);
  replica.Detach();
  EXPECT_LT(TimeOnStream(replica, [&] { return replica.Attach(test.MakeLocal(), /*warm_up=*/false); }),
            gradients);
}

// Bytes of machine code in this process.
int64_t ExecutableBytes() {
  std::ifstream maps("/proc/self/maps");
  int64_t bytes = 0;
  uint64_t begin = 0, end = 0;
  char dash = 0;
  std::string permissions, rest;
  while (maps >> std::hex >> begin >> dash >> end >> permissions && std::getline(maps, rest)) {
    if (absl::StrContains(permissions, 'x')) bytes += static_cast<int64_t>(end - begin);
  }
  return bytes;
}

// True if attaching the strategy generates machine code and the first step generates none. Must be called in
// a process in which no layer has run yet.
bool FirstStepGeneratesNoCode() {
  TestReplica test(CreateCpuDevice(1).value(), 0, 1, {}, NormalisedModel());
  const int64_t created = ExecutableBytes();
  if (!test.replica().Attach(test.MakeLocal()).ok()) return false;
  const int64_t attached = ExecutableBytes();
  return test.Steps(0, 1).ok() && created < attached && ExecutableBytes() == attached;
}

TEST(ReplicaWarmUpDeathTest, FirstStepGeneratesNoMachineCode) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // "threadsafe" runs the death test in a new process.
  EXPECT_EXIT(std::exit(FirstStepGeneratesNoCode() ? 0 : 1), ::testing::ExitedWithCode(0), "");
}

TEST(ReplicaWarmUp, AttachKeepsParametersSlotsAndStatistics) {
  for (std::unique_ptr<Device>& device : BothDevices()) {
    TestReplica test(std::move(device), 0, 1, {}, NormalisedModel());
    Replica& replica = test.replica();
    const std::vector<float> parameters = test.Parameters();
    std::vector<float> statistics = replica.ReadStatistics().value();
    for (size_t i = 0; i < statistics.size(); ++i) statistics[i] += 0.1f * static_cast<float>(i);
    ASSERT_TRUE(replica.SetStatistics(statistics).ok());
    ASSERT_TRUE(replica.Attach(test.MakeLocal()).ok());
    EXPECT_EQ(test.Parameters(), parameters);
    EXPECT_EQ(test.Part(1), std::vector<float>(parameters.size()));
    EXPECT_EQ(replica.ReadStatistics().value(), statistics);
  }
}

// The parameters after training, with or without computing the gradients of an empty batch first.
std::vector<float> TrainedByHand(std::unique_ptr<Device> device, bool warms_up) {
  TestReplica test(std::move(device), 0, 1, {}, NormalisedModel(), warms_up);
  EXPECT_EQ(StatusText(TrainByHand(test, test.MakeLocal())), "OK");
  return test.Parameters();
}

TEST(ReplicaWarmUp, WarmUpWithAnEmptyBatchChangesNoBitOfTheTrainingResult) {
  const std::vector<float> expected = TrainedByHand(CreateCpuDevice(1).value(), false);
  for (std::unique_ptr<Device>& device : BothDevices())
    EXPECT_EQ(TrainedByHand(std::move(device), true), expected);
}

// A local strategy whose layers sum over workers; this worker is the only one.
class SumsOverWorkers final : public Strategy, public StreamReducer {
 public:
  explicit SumsOverWorkers(std::unique_ptr<Strategy> strategy) : strategy_(std::move(strategy)) {}
  int sums() const { return sums_; }

  StreamReducer* worker_sums() override { return this; }
  absl::Status AllReduce(Stream&, float*, int64_t) override {
    ++sums_;
    return absl::OkStatus();
  }

  absl::StatusOr<StrategyTraits> Prepare(const StepArenas& arenas, absl::Span<const Range> order) override {
    return strategy_->Prepare(arenas, order);
  }
  absl::Status BeginStep(const StepInfo& step) override { return strategy_->BeginStep(step); }
  absl::Status GradientReady(int64_t index, const Event& event) override {
    return strategy_->GradientReady(index, event);
  }
  absl::Status EnqueueEnd(int parity) override { return strategy_->EnqueueEnd(parity); }
  absl::StatusOr<StepOutcome> AwaitEnd(const StepInfo& step, const Event& done) override {
    return strategy_->AwaitEnd(step, done);
  }
  absl::Status Refresh() override { return strategy_->Refresh(); }
  std::vector<absl::Span<float>> slots() override { return strategy_->slots(); }
  void Interrupt(const absl::Status& status) override { strategy_->Interrupt(status); }

 private:
  const std::unique_ptr<Strategy> strategy_;
  int sums_ = 0;
};

TEST(ReplicaWarmUp, EmptyBatchBeforeTrainingWaitsForNoOtherWorker) {
  TestReplica test(CreateCpuDevice(1).value(), 0, 1, {}, NormalisedModel());
  auto strategy = std::make_unique<SumsOverWorkers>(test.MakeLocal());
  const SumsOverWorkers& sums = *strategy;
  ASSERT_TRUE(test.replica().Attach(std::move(strategy)).ok());
  EXPECT_EQ(sums.sums(), 0);
  ASSERT_TRUE(test.Steps(0, 1).ok());
  EXPECT_GT(sums.sums(), 0);
}

}  // namespace
}  // namespace tethys
