#include "runtime/replica_update.h"

#include <memory>
#include <vector>

#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "runtime/base/clock.h"

namespace tethys {
namespace {

proto::Optimizer Momentum() {
  proto::Optimizer config;
  config.set_learning_rate(0.1);
  config.mutable_sgd()->set_momentum(0.9);
  return config;
}

class ReplicaUpdateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(variables_.Add("w", {20}, "in", InitialValue::kZeros, 1, 1).ok());
    ASSERT_TRUE(variables_.Add("frozen", {4}, "in", InitialValue::kZeros, 1, 1, /*trainable=*/false).ok());
    ASSERT_TRUE(variables_.Add("b", {3}, "in", InitialValue::kZeros, 1, 1).ok());
  }

  // Starting from zero parameters, makes three updates with each list of ranges in turn; returns the
  // parameters.
  std::vector<float> Updated(const std::vector<std::vector<NamedRange>>& lists) {
    const auto size = static_cast<size_t>(variables_.arena_size());
    std::vector<float> parameters(size), sums(size);
    for (size_t i = 0; i < size; ++i) sums[i] = static_cast<float>(i % 7) - 3;
    for (const std::vector<NamedRange>& ranges : lists) {
      ReplicaUpdate update = ReplicaUpdate::Create(Momentum(), ranges, LearningRateSchedule(Momentum(), {}),
                                                   *device_, *stream_, clock_)
                                 .value();
      EXPECT_TRUE(update.Prepare({parameters.data(), sums.data(), variables_.arena_size()}).ok());
      for (int64_t step = 0; step < 3; ++step) {
        update.SetRates({.step = step, .global_sample_count = 5});
        EXPECT_TRUE(update.Enqueue(0).ok());
      }
    }
    return parameters;
  }

  VariableSet variables_;
  MonotonicClock clock_;
  const std::unique_ptr<Device> device_ = CreateCpuDevice(1).value();
  const std::unique_ptr<Stream> stream_ = device_->CreateStream().value();
};

TEST_F(ReplicaUpdateTest, UpdateChangesOnlyTrainableVariables) {
  const std::vector<float> parameters = Updated({TrainableRanges(variables_)});
  for (const Variable& variable : variables_.variables()) {
    for (int64_t i = variable.range.begin; i < variable.range.end(); ++i) {
      EXPECT_EQ(parameters[i] != 0, variable.trainable && i % 7 != 3) << variable.name << " " << i;
    }
  }
}

// Compares the parameters of a worker whose group changes after two of its four steps with the parameters of
// a worker whose group stays the same.
TEST_F(ReplicaUpdateTest, NextReplicaUpdateContinuesWithTheSlotsOfTheFormerOne) {
  const auto size = static_cast<size_t>(variables_.arena_size());
  std::vector<std::vector<float>> results;
  for (const bool changes : {false, true}) {
    std::vector<float> parameters(size), sums(size, 1);
    const auto slots = std::make_shared<OptimizerSlots>();
    EXPECT_TRUE(slots->spans().empty());
    absl::optional<ReplicaUpdate> update;
    for (int64_t step = 0; step < 4; ++step) {
      if (step == 0 || (changes && step == 2)) {
        update.reset();
        update.emplace(ReplicaUpdate::Create(Momentum(), TrainableRanges(variables_),
                                             LearningRateSchedule(Momentum(), {}), *device_, *stream_, clock_,
                                             slots)
                           .value());
        EXPECT_TRUE(update->Prepare({parameters.data(), sums.data(), variables_.arena_size()}).ok());
      }
      update->SetRates({.step = step, .global_sample_count = 5});
      EXPECT_TRUE(update->Enqueue(0).ok());
    }
    EXPECT_EQ(update->slots().size(), 1);
    EXPECT_EQ(update->slots()[0].data(), slots->spans()[0].data());
    results.push_back(parameters);
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST_F(ReplicaUpdateTest, UpdatesOfPartsEqualTheUpdateOfTheWhole) {
  EXPECT_EQ(Updated({{{"w", {0, 9}}}, {{"w", {9, 11}}, {"b", {48, 3}}}}),
            Updated({TrainableRanges(variables_)}));
}

}  // namespace
}  // namespace tethys
