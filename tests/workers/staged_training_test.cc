// Tests training on a late device (tests/testing/late_device.h), a simulated device whose memory the host
// cannot use. Under every strategy the parameters must equal, bit for bit, the parameters of the same
// training on the CPU.
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "tests/testing/late_device.h"
#include "tests/workers/interrupted_strategy.h"
#include "tests/workers/mirrored_replicas.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;

// Simulates parameter servers: keeps parameters and optimizer slots on the host and updates them there.
std::unique_ptr<Strategy> HostUpdates(const TestReplica& replica, Device& cpu, Stream& stream) {
  return CreateLocalStrategy(replica.MakeUpdateOn(cpu, stream), TestClock());
}

std::vector<float> TrainedOnTheCpu() {
  TestReplica replica(CreateCpuDevice(1).value(), 0, 1);
  EXPECT_TRUE(TrainByHand(replica, HostUpdates(replica, replica.device(), replica.stream())).ok());
  return replica.Parameters();
}

TEST(StagedTraining, LocalTrainingOnLateDeviceEqualsTrainingOnCpuBitForBit) {
  TestReplica replica(testing::CreateLateDevice(), 0, 1);
  ASSERT_TRUE(TrainByHand(replica, replica.MakeLocal()).ok());
  EXPECT_EQ(replica.Parameters(), TrainedOnTheCpu());
}

// A strategy that sets the parameters before the first step, as parameter servers do.
class StartsWithInitialValues final : public Strategy {
 public:
  StartsWithInitialValues(std::unique_ptr<Strategy> inner, std::vector<float> initial)
      : inner_(std::move(inner)), initial_(std::move(initial)) {}
  absl::StatusOr<StrategyTraits> Prepare(const StepArenas& arenas, absl::Span<const Range> order) override {
    std::copy(initial_.begin(), initial_.end(), arenas.parameters);
    return inner_->Prepare(arenas, order);
  }
  absl::Status BeginStep(const StepInfo& step) override { return inner_->BeginStep(step); }
  absl::Status GradientReady(int64_t index, const Event& event) override {
    EXPECT_TRUE(*event.Happened());
    return inner_->GradientReady(index, event);
  }
  absl::Status EnqueueEnd(int parity) override { return inner_->EnqueueEnd(parity); }
  absl::StatusOr<StepOutcome> AwaitEnd(const StepInfo& step, const Event& done) override {
    return inner_->AwaitEnd(step, done);
  }
  absl::Status Refresh() override { return inner_->Refresh(); }
  std::vector<absl::Span<float>> slots() override { return {}; }
  void Interrupt(const absl::Status& status) override { inner_->Interrupt(status); }

 private:
  const std::unique_ptr<Strategy> inner_;
  const std::vector<float> initial_;
};

TEST(StagedTraining, ServerTrainingOnLateDeviceEqualsTrainingOnCpuBitForBit) {
  TestReplica replica(testing::CreateLateDevice(), 0, 1);
  const auto cpu = CreateCpuDevice(1).value();
  const auto stream = cpu->CreateStream().value();
  auto servers =
      std::make_unique<StartsWithInitialValues>(HostUpdates(replica, *cpu, *stream), replica.Parameters());
  ASSERT_TRUE(TrainByHand(replica, replica.Staged(std::move(servers), absl::nullopt)).ok());
  EXPECT_EQ(replica.Parameters(), TrainedOnTheCpu());
}

// A late device runs enqueued work only when the host waits for it, so a missing wait changes the result.
TEST(StagedTraining, MirroredTrainingOnLateDevicesEqualsTrainingOnCpusBitForBit) {
  const auto staged = TrainMirrored(
      3, [] { return testing::CreateLateDevice(); },
      [](TestReplica& replica, auto communicator) {
        return replica.Staged(replica.MakeMirrored(std::move(communicator)), replica.MakeUpdate());
      });
  EXPECT_EQ(staged, MirroredOnTheCpu(3));
}

// A strategy that uses the gradients until it is destroyed, as a strategy with threads may.
class WorksToTheEnd final : public Strategy {
 public:
  ~WorksToTheEnd() override { gradients_[0] += 1; }
  absl::StatusOr<StrategyTraits> Prepare(const StepArenas& arenas, absl::Span<const Range>) override {
    gradients_ = arenas.gradient_sums;
    return StrategyTraits();
  }
  absl::Status BeginStep(const StepInfo&) override { return absl::OkStatus(); }
  absl::Status GradientReady(int64_t, const Event&) override { return absl::OkStatus(); }
  absl::Status EnqueueEnd(int) override { return absl::UnavailableError("lost a rank"); }
  absl::StatusOr<StepOutcome> AwaitEnd(const StepInfo&, const Event&) override { return StepOutcome(); }
  absl::Status Refresh() override { return absl::OkStatus(); }
  std::vector<absl::Span<float>> slots() override { return {}; }
  void Interrupt(const absl::Status&) override {}

 private:
  float* gradients_ = nullptr;
};

// If the gradients were freed before the strategy, the strategy would use freed memory, which only
// AddressSanitizer reports.
TEST(StagedTraining, GradientsOutliveTheStrategyThatExchangesThem) {
  TestReplica replica(testing::CreateLateDevice(), 0, 1);
  const absl::Status status =
      TrainByHand(replica, replica.Staged(std::make_unique<WorksToTheEnd>(), absl::nullopt));
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

TEST(StagedTraining, HungDeviceFailsTheStepAtTheDeadline) {
  TestReplica replica(testing::CreateLateDevice({.hangs = true}), 0, 1);
  const auto cpu = CreateCpuDevice(1).value();
  const auto stream = cpu->CreateStream().value();
  const absl::Status status = TrainByHand(
      replica, replica.Staged(HostUpdates(replica, *cpu, *stream), absl::nullopt, 20 * kMillisecond));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("a late device did not finish the gradients of ["));
}

// Refresh lets a worker distinguish a failed exchange, after which a new group forms, from its own failures.
TEST(StagedTraining, RefreshAfterAHungDeviceReturnsAFailureOfTheDevice) {
  TestReplica replica(testing::CreateLateDevice({.hangs = true}), 0, 1);
  const auto cpu = CreateCpuDevice(1).value();
  const auto stream = cpu->CreateStream().value();
  auto staged = replica.Staged(HostUpdates(replica, *cpu, *stream), absl::nullopt, 20 * kMillisecond);
  ASSERT_TRUE(replica.replica().Attach(std::move(staged)).ok());
  BatchBuffer samples(kRows, replica.model().sample_elements());
  const std::unique_ptr<Event> done = replica.device().CreateEvent().value();
  EXPECT_TRUE(absl::IsDeadlineExceeded(StepByHand(replica, 0, samples.batch(), *done)));
  const absl::Status failed = replica.replica().strategy()->Refresh();
  EXPECT_TRUE(absl::IsInternal(failed)) << failed;
  EXPECT_THAT(std::string(failed.message()), HasSubstr("did not finish the gradients"));
}

// ------------------------------------------------------------------------------------------- interrupt

using At = InterruptedStrategy::At;

// Trains with a strategy that is interrupted at `at`. Expects that the step takes effect if and only if its
// end was enqueued before the interruption.
void ExpectInterrupted(TestReplica& replica, std::unique_ptr<Strategy> strategy, At at) {
  const std::vector<float> before = replica.Parameters();
  const absl::Status status =
      TrainByHand(replica, std::make_unique<InterruptedStrategy>(std::move(strategy), at));
  EXPECT_EQ(status, InterruptedStrategy::Reason()) << status;
  EXPECT_EQ(replica.Parameters() != before, at == At::kAwaitEnd);
}

TEST(Interrupt, InterruptedLocalStepTakesEffectIfAndOnlyIfItsEndWasEnqueued) {
  for (const At at : {At::kBeginStep, At::kGradientReady, At::kEnqueueEnd, At::kAwaitEnd}) {
    SCOPED_TRACE(static_cast<int>(at));
    TestReplica cpu(CreateCpuDevice(1).value(), 0, 1);
    ExpectInterrupted(cpu, cpu.MakeLocal(), at);
    TestReplica late(testing::CreateLateDevice(), 0, 1);
    ExpectInterrupted(late, late.MakeLocal(), at);
  }
}

TEST(Interrupt, InterruptedStagedStepTakesEffectIfAndOnlyIfItsEndWasEnqueued) {
  for (const At at : {At::kBeginStep, At::kGradientReady, At::kEnqueueEnd, At::kAwaitEnd}) {
    SCOPED_TRACE(static_cast<int>(at));
    ExpectAllOk(InRing(1, [&](std::unique_ptr<Communicator>& ring) {
      TestReplica replica(testing::CreateLateDevice(), 0, 1);
      auto sums = replica.MakeMirrored(std::move(ring));
      ExpectInterrupted(replica, replica.Staged(std::move(sums), replica.MakeUpdate()), at);
      return absl::OkStatus();
    }));
  }
}

TEST(Interrupt, InterruptedStagedStepOnAHungDeviceReturnsTheReason) {
  TestReplica replica(testing::CreateLateDevice({.hangs = true}), 0, 1);
  const auto cpu = CreateCpuDevice(1).value();
  const auto stream = cpu->CreateStream().value();
  auto staged = replica.Staged(HostUpdates(replica, *cpu, *stream), absl::nullopt, 3600 * kSecond);
  EXPECT_EQ(TrainByHand(replica, std::make_unique<InterruptedStrategy>(std::move(staged), At::kEnqueueEnd)),
            InterruptedStrategy::Reason());
}

}  // namespace
}  // namespace tethys
