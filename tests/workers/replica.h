// A replica of a small model on a device of its choice, trained under a strategy of the test's choice.
#ifndef TETHYS_TESTS_WORKERS_REPLICA_H_
#define TETHYS_TESTS_WORKERS_REPLICA_H_

#include <memory>
#include <utility>
#include <vector>

#include "collectives/mirrored_strategy.h"
#include "gtest/gtest.h"
#include "runtime/staged_strategy.h"
#include "tests/collectives/ring_fixture.h"
#include "tests/runtime/nn/network_fixture.h"
#include "tests/workers/random_samples.h"
#include "workers/device_memory.h"

namespace tethys {

constexpr int64_t kRows = 16;
constexpr int kSteps = 6;

inline proto::Optimizer SgdConfig() {
  proto::Optimizer config;
  config.set_learning_rate(0.05);
  config.set_weight_decay(1e-3);
  config.mutable_sgd()->set_momentum(0.9);
  config.mutable_schedule()->mutable_linear_decay()->set_end_learning_rate(0.01);
  config.mutable_schedule()->mutable_linear_decay()->set_samples(600);
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

  absl::StatusOr<StrategyTraits> Prepare(Strategy& strategy, const UpdateEvents& update_events = {}) {
    const StepArenas arenas{parameters_->floats(), gradients_->floats(), ArenaSize(), update_events};
    return strategy.Prepare(arenas, model_.ready_order());
  }

  absl::Status Train(std::unique_ptr<Strategy> strategy) {
    TETHYS_RETURN_IF_ERROR(Prepare(*strategy).status());
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

  absl::Status SetFirstWeight(float to) {
    return FillDeviceMemory(*device_, *stream_, {parameters_->floats(), 1}, [to](absl::Span<float> weight) {
      weight[0] = to;
      return absl::OkStatus();
    });
  }

  const Model& model() const { return model_; }
  Device& device() { return *device_; }
  Stream& stream() { return *stream_; }
  Plan& plan() { return *plan_; }
  absl::Span<float> parameters() { return {parameters_->floats(), Size()}; }  // Device memory.
  int rank() const { return rank_; }
  int world() const { return world_; }

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

}  // namespace tethys

#endif  // TETHYS_TESTS_WORKERS_REPLICA_H_
