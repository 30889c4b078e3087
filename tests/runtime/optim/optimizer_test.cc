#include "runtime/optim/optimizer.h"

#include <cmath>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "runtime/base/clock.h"
#include "runtime/local_strategy.h"
#include "runtime/tensor/arena.h"
#include "tests/testing/happened_event.h"

namespace tethys {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

proto::Optimizer Config(const std::string& text) {
  proto::Optimizer config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config));
  return config;
}

std::vector<float> Decays(const std::string& config) {
  std::vector<float> decays;
  for (const UpdateRegion& region : MakeUpdateRegions(
           Config(config), {{"a/weights", {0, 4}}, {"a/bias", {16, 2}}, {"b/weights", {32, 4}}})) {
    decays.push_back(region.weight_decay);
  }
  return decays;
}

TEST(Optimizer, WeightDecayAppliesToAllVariablesButThoseInNoWeightDecay) {
  EXPECT_THAT(Decays("weight_decay: 0.5"), ElementsAre(0.5f, 0.5f, 0.5f));
  EXPECT_THAT(Decays("weight_decay: 0.5 no_weight_decay: '/bias'"), ElementsAre(0.5f, 0, 0.5f));
  EXPECT_THAT(Decays("weight_decay: 0.5 no_weight_decay: 'b/'"), ElementsAre(0.5f, 0.5f, 0));
  EXPECT_THAT(Decays("weight_decay: 0.5 no_weight_decay: 'a/' no_weight_decay: 'weights'"),
              ElementsAre(0, 0, 0));
  EXPECT_THAT(Decays(""), ElementsAre(0, 0, 0));
}

TEST(Optimizer, VariablesExcludedFromDecayHaveNoTrustRatio) {
  const auto regions = MakeUpdateRegions(Config("lars {} no_weight_decay: '/bias'"),
                                         {{"a/weights", {0, 4}}, {"a/bias", {16, 2}}});
  EXPECT_TRUE(regions[0].adapted);
  EXPECT_FALSE(regions[1].adapted);
}

std::vector<std::string> SlotNames(const std::string& config) {
  std::vector<std::string> names;
  for (const OptimizerSlot& slot : SlotsOf(Config(config))) names.push_back(slot.name);
  return names;
}

TEST(Optimizer, EachOptimizerHasTheSlotsOfItsFormula) {
  EXPECT_THAT(SlotNames("sgd {}"), ElementsAre());
  EXPECT_THAT(SlotNames("sgd { momentum: 0.9 }"), ElementsAre("momentum"));
  EXPECT_THAT(SlotNames("adam {}"), ElementsAre("first_moment", "second_moment"));
  EXPECT_THAT(SlotNames("rmsprop {}"), ElementsAre("mean_square"));
  EXPECT_THAT(SlotNames("rmsprop { centered: true momentum: 0.5 }"),
              ElementsAre("mean_square", "mean", "step_momentum"));
  EXPECT_THAT(SlotNames("adagrad {}"), ElementsAre("accumulator"));
  EXPECT_THAT(SlotNames("lars {}"), ElementsAre("scaled_momentum"));
  EXPECT_THAT(SlotNames("lamb {}"), ElementsAre("first_moment", "second_moment"));
}

TEST(Optimizer, SlotsHaveTheirInitialValueOnlyInUpdatedRegions) {
  auto device = CreateCpuDevice(1).value();
  auto optimizer =
      CreateOptimizer(Config("adagrad { epsilon: 1e-7 initial_accumulator: 0.5 }"), *device, {{{1, 2}, 0}})
          .value();
  const auto slots = optimizer->AllocateSlots(4).value();
  ASSERT_EQ(slots.size(), 1u);
  EXPECT_THAT(absl::MakeSpan(slots[0]->floats(), 4), ElementsAre(0, 0.5f, 0.5f, 0));
}

TEST(Optimizer, ConfigWithoutAKindOfOptimizerOrWithMomentumOneIsRefused) {
  auto device = CreateCpuDevice(1).value();
  EXPECT_EQ(CreateOptimizer(Config("learning_rate: 1"), *device, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(CreateOptimizer(Config("sgd { momentum: 1 }"), *device, {}).ok());
}

TEST(Optimizer, UpdateAfterANonFiniteGradientChangesNothingAndFails) {
  auto device = CreateCpuDevice(1).value();
  auto stream = device->CreateStream().value();
  auto optimizer = CreateOptimizer(Config("sgd {}"), *device, {{{0, 1}, 0}}).value();
  float w = 1;
  const float bad = std::nanf(""), good = 1;
  for (const int parity : {0, 1}) {
    optimizer->SetRates(parity, {.learning_rate = 0.5});
    ASSERT_TRUE(optimizer->Enqueue(*stream, parity, {}, &w, parity == 0 ? &bad : &good, {}).ok());
  }
  EXPECT_EQ(optimizer->Check(0).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(optimizer->Check(1).ok());
  EXPECT_EQ(w, 1);
}

// Clipping scales the gradients before the trust ratio takes their norm.
TEST(Optimizer, TrustRatioIsComputedFromClippedGradients) {
  auto device = CreateCpuDevice(1).value();
  auto stream = device->CreateStream().value();
  const std::string lars = "lars { trust: 0.5 epsilon: 1 }";
  const auto updated = [&](const std::string& config, float gradient) {
    auto optimizer = CreateOptimizer(Config(config), *device, {{{0, 1}, 0}}).value();
    auto slots = optimizer->AllocateSlots(1).value();
    float w = 4;
    EXPECT_TRUE(optimizer->Apply(*stream, {.learning_rate = 1}, &w, &gradient, {slots[0]->floats()}).ok());
    return w;
  };
  EXPECT_EQ(updated(lars, 3), 4 - 0.5f * 4 / (3 + 1) * 3);
  EXPECT_EQ(updated(lars + " clip { global_norm: 1 }", 3), updated(lars, 1));
}

TEST(Optimizer, UpdateUsesTheRatesSetForItsEvenOrOddStep) {
  auto device = CreateCpuDevice(1).value();
  auto stream = device->CreateStream().value();
  auto optimizer = CreateOptimizer(Config("sgd {}"), *device, {{{0, 1}, 0}}).value();
  float w = 1;
  const float gradient = 1;
  optimizer->SetRates(0, {.learning_rate = 0.5});
  optimizer->SetRates(1, {.learning_rate = 0.25, .gradient_scale = 0.5});
  for (const int parity : {1, 0}) {
    ASSERT_TRUE(optimizer->Enqueue(*stream, parity, {.learning_rate = 9}, &w, &gradient, {}).ok());
    EXPECT_EQ(w, parity == 1 ? 0.875f : 0.375f);
  }
}

// Advances by a microsecond whenever the clock is read.
class TickingClock final : public Clock {
 public:
  Nanoseconds Now() const override { return now_ += kMicrosecond; }

 private:
  mutable Nanoseconds now_ = 0;
};

class LocalStrategyTest : public testing::Test {
 protected:
  void Start(const std::string& text) {
    const proto::Optimizer config = Config(text);
    auto optimizer = CreateOptimizer(config, *device_, MakeUpdateRegions(config, {{"w", {0, 2}}})).value();
    strategy_ = CreateLocalStrategy(
        {std::move(optimizer), LearningRateSchedule(config, {.job = 100}, 2), *stream_, clock_}, clock_);
    parameters_.data()[0] = parameters_.data()[1] = 1;
    gradients_.data()[0] = gradients_.data()[1] = 8;
    strategy_->Prepare({parameters_.data(), gradients_.data(), 16}, {}).value();
  }
  absl::StatusOr<StepOutcome> Step(const StepInfo& info) {
    TETHYS_RETURN_IF_ERROR(strategy_->BeginStep(info));
    return EndStep(*strategy_, info);
  }

  std::unique_ptr<Device> device_ = CreateCpuDevice(1).value();
  std::unique_ptr<Stream> stream_ = device_->CreateStream().value();
  TickingClock clock_;
  Arena parameters_{16};
  Arena gradients_{16};
  std::unique_ptr<Strategy> strategy_;
};

TEST_F(LocalStrategyTest, UpdateDividesByTheGlobalBatchAndFollowsTheSchedule) {
  Start("learning_rate: 1 scale_with_workers: true sgd {} schedule { linear_decay {} }");
  const StepOutcome outcome = Step({.step = 6, .global_sample_count = 16, .schedule_position = 50}).value();
  // The rate is 1 x 2 workers x 0.5 (half of the schedule has passed), and the mean gradient is 8 / 16.
  EXPECT_EQ(parameters_.data()[0], 0.5f);
  EXPECT_EQ(outcome.version, 7);
  EXPECT_EQ(outcome.update_ns, kMicrosecond);
  EXPECT_EQ(outcome.staleness, 0);
  EXPECT_EQ(outcome.bytes_out, 0);
}

TEST_F(LocalStrategyTest, ParametersChangeOnlyAtTheEndOfTheStep) {
  Start("learning_rate: 1 sgd {}");
  auto event = device_->CreateEvent().value();
  const StepInfo step{.global_sample_count = 8};
  ASSERT_TRUE(strategy_->BeginStep(step).ok());
  ASSERT_TRUE(strategy_->GradientReady(0, *event).ok());
  EXPECT_EQ(parameters_.data()[0], 1);
  ASSERT_TRUE(EndStep(*strategy_, step).ok());
  EXPECT_EQ(parameters_.data()[0], 0);
}

TEST_F(LocalStrategyTest, StrategyKeepsItsSlotsWhenPreparedForAnotherPlan) {
  Start("learning_rate: 1 sgd { momentum: 0.5 }");
  ASSERT_TRUE(Step({.global_sample_count = 8}).ok());
  ASSERT_TRUE(strategy_->Prepare({parameters_.data(), gradients_.data(), 16}, {}).ok());
  ASSERT_EQ(strategy_->slots().size(), 1u);
  EXPECT_EQ(strategy_->slots()[0][0], 1);
}

TEST_F(LocalStrategyTest, ErrorNamesTheStepOfANonFiniteGradient) {
  Start("learning_rate: 1 sgd { momentum: 0.5 }");
  gradients_.data()[1] = std::nanf("");
  const auto outcome = Step({.step = 41, .global_sample_count = 8});
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(StatusText(outcome.status()), HasSubstr("step 41"));
  EXPECT_EQ(parameters_.data()[0], 1);
  EXPECT_EQ(strategy_->slots()[0][0], 0);
}

TEST_F(LocalStrategyTest, RefusesAStepWithoutSamples) {
  Start("learning_rate: 1 sgd {}");
  EXPECT_EQ(Step({.step = 3}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tethys
