// A replica (workers/replica.h) of a small model on a device and under a strategy that the test chooses.
#ifndef TETHYS_TESTS_WORKERS_REPLICA_H_
#define TETHYS_TESTS_WORKERS_REPLICA_H_

#include <memory>
#include <utility>
#include <vector>

#include "collectives/mirrored_strategy.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "runtime/staged_strategy.h"
#include "tests/collectives/ring_fixture.h"
#include "tests/runtime/nn/network_fixture.h"
#include "tests/testing/late_device.h"
#include "tests/workers/random_samples.h"
#include "workers/device_memory.h"
#include "workers/replica.h"

namespace tethys {

constexpr int64_t kRows = 16;
constexpr int64_t kSamples = 50;  // Samples of each rank: three full batches and one batch of 2.

inline proto::Optimizer SgdConfig() {
  proto::Optimizer config;
  config.set_learning_rate(0.05);
  config.set_weight_decay(1e-3);
  config.add_no_weight_decay("/bias");
  config.mutable_sgd()->set_momentum(0.9);
  config.mutable_schedule()->mutable_linear_decay()->set_end_learning_rate(0.01);
  config.mutable_schedule()->mutable_linear_decay()->set_samples(600);
  return config;
}

// A model with moving statistics for the samples of RandomSamples.
inline Model NormalisedModel() {
  proto::Model config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "layer { convolution { filters: 4 kernel_size: 3 } } "
      "layer { batch_normalisation { activation: RELU } } layer { flatten {} } "
      "layer { name: 'hidden' dense { units: 12 } } layer { batch_normalisation {} } "
      "layer { name: 'logits' dense { units: 10 } }",
      &config));
  return Model::Create(config, {6, 6}, 10).value();
}

// A synchronous and an asynchronous device.
inline std::vector<std::unique_ptr<Device>> BothDevices() {
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(CreateCpuDevice(1).value());
  devices.push_back(testing::CreateLateDevice());
  return devices;
}

// A replica with its own samples. A test trains it by Steps, or by TrainByHand (steps_by_hand.h) on random
// batches.
class TestReplica {
 public:
  // `model` takes 6 x 6 images and has 10 classes, like RandomSamples. Without data, only TrainByHand works,
  // and the replica computes nothing before the first step.
  TestReplica(std::unique_ptr<Device> device, int rank, int world, Replica::Options options = {},
              Model model = MakeMlp({6, 6}, {24, 12, 10}), bool has_data = true, int64_t rows = kRows)
      : rank_(rank), world_(world) {
    options.index = rank;
    options.rows = options.evaluation_rows = rows;
    options.scaling = {.mean = {0.3f}, .deviation = {0.35f}};
    if (has_data) options.train = RandomSamples(kSamples, rank);
    replica_ = Replica::Create(std::move(model), std::move(device), TestClock(), options).value();
    EXPECT_TRUE(replica_->FillInitialValues(5).ok());
  }

  ReplicaUpdate MakeUpdate() {
    return replica_->MakeUpdate(SgdConfig(), LearningRateSchedule(SgdConfig(), {})).value();
  }
  // An update of the same variables on another device.
  ReplicaUpdate MakeUpdateOn(Device& device, Stream& stream) const {
    return ReplicaUpdate::Create(SgdConfig(), TrainableRanges(model().variables()),
                                 LearningRateSchedule(SgdConfig(), {}), device, stream, TestClock())
        .value();
  }
  std::unique_ptr<Strategy> MakeLocal(Nanoseconds timeout = 30 * kSecond) {
    return CreateLocalStrategy(MakeUpdate(), TestClock(), timeout);
  }
  // If the host cannot use the device's memory, the strategy only sums gradients and updates nothing.
  std::unique_ptr<Strategy> MakeMirrored(std::unique_ptr<Communicator> communicator) {
    absl::optional<ReplicaUpdate> update;
    if (device().reads_host_memory()) update.emplace(MakeUpdate());
    return CreateMirroredStrategy(std::move(communicator), std::move(update), {.bucket_bytes = 256}).value();
  }
  std::unique_ptr<Strategy> Staged(std::unique_ptr<Strategy> inner, absl::optional<ReplicaUpdate> update,
                                   Nanoseconds timeout = 30 * kSecond) {
    return CreateStagedStrategy(std::move(inner), std::move(update), device(), stream(),
                                {.step_timeout = timeout, .clock = &TestClock()})
        .value();
  }

  // Makes steps [begin, end) by replica().Step() on batches of kRows samples in the order of the data.
  absl::Status Steps(int64_t begin, int64_t end) {
    for (int64_t step = begin; step < end; ++step) {
      const int64_t first = step % 3 * kRows;
      replica_->loader().Announce(nullptr, {first, first + kRows});
      TETHYS_RETURN_IF_ERROR(
          replica_->Step({.step = step, .sample_count = kRows, .global_sample_count = kRows}));
    }
    return replica_->Finish();
  }

  std::vector<float> Parameters() { return Part(0); }
  // The contents of one of replica().Parts().
  std::vector<float> Part(size_t part) {
    std::vector<float> out;
    EXPECT_TRUE(replica_
                    ->ReadPart(part, {0, replica_->arena_size()},
                               [&](absl::Span<const float> values) {
                                 out.assign(values.begin(), values.end());
                                 return absl::OkStatus();
                               })
                    .ok());
    return out;
  }

  absl::Status SetFirstWeight(float to) { return SetParameter(0, to); }
  // Sets the parameter at a position of the arena.
  absl::Status SetParameter(int64_t position, float to) {
    return FillDeviceMemory(device(), stream(), parameters().subspan(position, 1),
                            [to](absl::Span<float> parameter) {
                              parameter[0] = to;
                              return absl::OkStatus();
                            });
  }

  Replica& replica() { return *replica_; }
  const Model& model() const { return replica_->model(); }
  Device& device() { return replica_->device(); }
  Stream& stream() { return replica_->stream(); }
  Plan& plan() { return replica_->plan(); }
  absl::Span<float> parameters() { return replica_->Parts()[0]; }  // The parameters, in device memory.
  int rank() const { return rank_; }
  int world() const { return world_; }

 private:
  const int rank_;
  const int world_;
  std::unique_ptr<Replica> replica_;
};

}  // namespace tethys

#endif  // TETHYS_TESTS_WORKERS_REPLICA_H_
