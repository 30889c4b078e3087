// Training on a device whose memory is none of the host's and which does everything as late as it may: under
// every strategy the parameters are those of the same training on the CPU, bit by bit.
#include <memory>
#include <vector>

#include "collectives/mirrored_strategy.h"
#include "gmock/gmock.h"
#include "runtime/staged_strategy.h"
#include "tests/collectives/ring_fixture.h"
#include "tests/runtime/nn/mlp_fixture.h"
#include "tests/testing/late_device.h"
#include "workers/device_memory.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRows = 16;
constexpr int kSteps = 6;

proto::Optimizer SgdConfig() {
  proto::Optimizer config;
  config.set_learning_rate(0.05);
  config.set_weight_decay(1e-3);
  config.mutable_sgd()->set_momentum(0.9);
  return config;
}

// A replica on `device`, which trains on batches of its rank.
class Replica {
 public:
  Replica(std::unique_ptr<Device> device, int rank, int world)
      : rank_(rank),
        world_(world),
        device_(std::move(device)),
        stream_(device_->CreateStream().value()),
        parameters_(Allocate()),
        gradients_(Allocate()),
        samples_(kRows, model_.sample_elements()) {
    plan_ = Plan::Compile(model_, *device_, *stream_, kRows, {.mean = 0.3f, .deviation = 0.35f},
                          parameters_->floats(), gradients_->floats())
                .value();
    EXPECT_TRUE(
        FillDeviceMemory(*device_, *stream_, {parameters_->floats(), Size()}, [&](absl::Span<float> values) {
          model_.variables().FillInitialValues(5, {0, ArenaSize()}, values.data());
          return absl::OkStatus();
        }).ok());
  }

  std::unique_ptr<Optimizer> MakeOptimizer(Device& device) const {
    std::vector<NamedRange> ranges;
    for (const Variable& variable : model_.variables().variables())
      ranges.push_back({variable.name, variable.range});
    return CreateOptimizer(SgdConfig(), device, MakeSegments(SgdConfig(), ranges)).value();
  }
  ReplicaUpdate MakeUpdate() {
    return {MakeOptimizer(*device_), SgdConfig(), 0, world_, *stream_, TestClock()};
  }
  std::unique_ptr<Strategy> MakeMirrored(std::unique_ptr<Communicator> communicator) {
    MirroredOptions options;
    options.optimizer = SgdConfig();
    options.bucket_bytes = 256;
    auto optimizer = device_->reads_host_memory() ? MakeOptimizer(*device_) : nullptr;
    return CreateMirroredStrategy(std::move(communicator), std::move(optimizer), options, *stream_,
                                  TestClock())
        .value();
  }
  std::unique_ptr<Strategy> Staged(std::unique_ptr<Strategy> inner, absl::optional<ReplicaUpdate> update,
                                   Nanoseconds timeout = 30 * kSecond) {
    return CreateStagedStrategy(std::move(inner), std::move(update), *device_, *stream_,
                                {.step_timeout = timeout, .clock = &TestClock()})
        .value();
  }

  absl::Status Train(std::unique_ptr<Strategy> strategy) {
    const StepArenas arenas{parameters_->floats(), gradients_->floats(), ArenaSize()};
    TETHYS_RETURN_IF_ERROR(strategy->Prepare(arenas, model_.ready_order()).status());
    for (int64_t step = 0; step < kSteps; ++step) {
      const HostBatch batch = samples_.batch();
      FillRandom(batch, model_.sample_elements(), model_.classes(), step * world_ + rank_);
      TETHYS_RETURN_IF_ERROR(
          strategy->BeginStep({.step = step, .sample_count = kRows, .global_sample_count = kRows * world_}));
      TETHYS_RETURN_IF_ERROR(plan_->Forward(batch));
      TETHYS_RETURN_IF_ERROR(plan_->Backward(
          [&](int64_t index, const Event& event) { return strategy->GradientReady(index, event); }));
      TETHYS_RETURN_IF_ERROR(strategy->FinishStep().status());
    }
    return absl::OkStatus();
  }

  std::vector<float> Parameters() {
    std::vector<float> out;
    EXPECT_TRUE(ReadDeviceMemory(*device_, *stream_, {parameters_->floats(), Size()},
                                 [&](absl::Span<const float> values) {
                                   out.assign(values.begin(), values.end());
                                   return absl::OkStatus();
                                 })
                    .ok());
    return out;
  }

  Device& device() { return *device_; }
  Stream& stream() { return *stream_; }

 private:
  std::unique_ptr<Buffer> Allocate() {
    return device_->Allocate(ArenaSize() * static_cast<int64_t>(sizeof(float)), MemoryKind::kDevice).value();
  }
  int64_t ArenaSize() const { return model_.variables().arena_size(); }
  size_t Size() const { return static_cast<size_t>(ArenaSize()); }

  const int rank_;
  const int world_;
  const Model model_ = MakeMlp({6, 6}, {24, 12, 10});
  const std::unique_ptr<Device> device_;
  const std::unique_ptr<Stream> stream_;
  const std::unique_ptr<Buffer> parameters_, gradients_;
  BatchBuffer samples_;
  std::unique_ptr<Plan> plan_;
};

// Stands for servers: keeps parameters and slots on the host, updates them there.
std::unique_ptr<Strategy> HostUpdates(const Replica& replica, Device& cpu, Stream& stream) {
  return CreateLocalStrategy(replica.MakeOptimizer(cpu), SgdConfig(), 0, 1, stream, TestClock());
}

std::vector<float> TrainedOnTheCpu() {
  Replica replica(CreateCpuDevice(1).value(), 0, 1);
  EXPECT_TRUE(replica.Train(HostUpdates(replica, replica.device(), replica.stream())).ok());
  return replica.Parameters();
}

TEST(StagedTraining, LocallyOnALateDeviceGivesTheCpusBits) {
  Replica replica(testing::CreateLateDevice(), 0, 1);
  ASSERT_TRUE(replica
                  .Train(CreateLocalStrategy(replica.MakeOptimizer(replica.device()), SgdConfig(), 0, 1,
                                             replica.stream(), TestClock()))
                  .ok());
  EXPECT_EQ(replica.Parameters(), TrainedOnTheCpu());
}

// Its parameters come from elsewhere, so they are there before the first step.
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
  absl::StatusOr<StepOutcome> FinishStep() override { return inner_->FinishStep(); }
  absl::Status Refresh() override { return inner_->Refresh(); }
  std::vector<absl::Span<float>> slots() override { return {}; }

 private:
  const std::unique_ptr<Strategy> inner_;
  const std::vector<float> initial_;
};

TEST(StagedTraining, WithParametersKeptElsewhereGivesTheCpusBits) {
  Replica replica(testing::CreateLateDevice(), 0, 1);
  const auto cpu = CreateCpuDevice(1).value();
  const auto stream = cpu->CreateStream().value();
  auto servers =
      std::make_unique<StartsWithInitialValues>(HostUpdates(replica, *cpu, *stream), replica.Parameters());
  ASSERT_TRUE(replica.Train(replica.Staged(std::move(servers), absl::nullopt)).ok());
  EXPECT_EQ(replica.Parameters(), TrainedOnTheCpu());
}

std::vector<std::vector<float>> TrainedMirrored(int world, bool late) {
  std::vector<std::vector<float>> parameters(world);
  ExpectAllOk(InRing(world, [&](std::unique_ptr<Communicator>& communicator) -> absl::Status {
    const int rank = communicator->rank();
    Replica replica(late ? testing::CreateLateDevice() : CreateCpuDevice(1).value(), rank, world);
    auto mirrored = replica.MakeMirrored(std::move(communicator));
    if (late) mirrored = replica.Staged(std::move(mirrored), replica.MakeUpdate());
    TETHYS_RETURN_IF_ERROR(replica.Train(std::move(mirrored)));
    parameters[rank] = replica.Parameters();
    return absl::OkStatus();
  }));
  return parameters;
}

TEST(StagedTraining, MirroredOnLateDevicesGivesTheCpusBits) {
  EXPECT_EQ(TrainedMirrored(3, true), TrainedMirrored(3, false));
}

TEST(StagedTraining, ADeviceThatHangsEndsTheStepByItsDeadline) {
  Replica replica(testing::CreateLateDevice({.hangs = true}), 0, 1);
  const auto cpu = CreateCpuDevice(1).value();
  const auto stream = cpu->CreateStream().value();
  const absl::Status status =
      replica.Train(replica.Staged(HostUpdates(replica, *cpu, *stream), absl::nullopt, 20 * kMillisecond));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("a late device did not finish the gradients of ["));
}

}  // namespace
}  // namespace tethys
