// Tests a training step and an evaluation of a small network of each family.
#include <algorithm>
#include <cmath>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "runtime/nn/zoo/zoo.h"
#include "tests/runtime/nn/network_fixture.h"

namespace tethys {
namespace {

struct Member {
  const char* text;
  Shape sample;
};

const Member kMembers[] = {
    {"lenet {}", {28, 28}},
    {"vgg { convolutions: 1 convolutions: 2 width: 5 dense_units: 12 batch_normalisation: true }",
     {16, 16, 3}},
    {"vgg { convolutions: 2 width: 8 dense_units: 12 }", {9, 11}},
    {"resnet { stem: CIFAR depth: 8 width: 6 }", {20, 20, 3}},
    {"resnet { depth: 18 width: 8 }", {64, 64, 3}},
    {"resnet { depth: 50 width: 4 }", {64, 64, 3}},
    {"resnet { depth: 50 width: 4 style: KERAS }", {64, 64, 3}},
    {"mobilenet { multiplier: 0.25 }", {64, 64, 3}},
    {"fcn { backbone { convolutions: [1, 1, 1, 1, 1] width: 3 dense_units: [6, 6] } }", {32, 64}},
    {"fcn { stride: 8 backbone { convolutions: [1, 1, 2, 1, 1] width: 4 dense_units: [6, 6] "
     "batch_normalisation: true } }",
     {64, 32, 3}},
};

Model Create(const Member& member) {
  proto::Model config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(member.text, &config));
  CompleteFamily(config);
  return Model::Create(config, member.sample, 4).value();
}

TEST(ZooStep, RecomputationChangesNoGradientOfAnyFamily) {
  for (const Member& member : kMembers) {
    SCOPED_TRACE(member.text);
    Network network(Create(member), 3);
    ASSERT_TRUE(network.plan->Forward(network.batch).ok());
    ASSERT_TRUE(network.Backward().ok());
    const std::vector<float> kept(network.gradients.data(),
                                  network.gradients.data() + network.gradients.size());
    network.plan = network.TrainingPlan({.rows = 3, .scaling = network.scaling, .recomputes = true});
    std::fill_n(network.gradients.data(), network.gradients.size(), std::nanf(""));
    ASSERT_TRUE(network.plan->Forward(network.batch).ok());
    ASSERT_TRUE(network.Backward().ok());
    for (const Variable& variable : network.model.variables().variables()) {
      const auto gradient = network.gradients.Slice(variable.range);
      EXPECT_TRUE(std::equal(gradient.begin(), gradient.end(), kept.begin() + variable.range.begin))
          << variable.name;
    }
  }
}

TEST(ZooStep, RecomputationTakesAtMostSixTenthsOfTheMemory) {
  const struct {
    Member member;
    double share;  // The most memory with recomputation, as a share of the memory without it.
  } cases[] = {{{"mobilenet {}", {224, 224, 3}}, 0.55},
               {{"resnet {}", {224, 224, 3}}, 0.6},
               {{"resnet { stem: CIFAR depth: 56 }", {32, 32, 3}}, 0.6}};
  for (const auto& [member, share] : cases) {
    const Model model = Create(member);
    const int64_t kept = ActivationElements(model, 4, /*trains=*/true).value();
    const int64_t again = ActivationElements(model, 4, /*trains=*/true, /*recomputes=*/true).value();
    EXPECT_LE(static_cast<double>(again), share * static_cast<double>(kept)) << member.text;
  }
}

TEST(ZooStep, EveryVariableOfEveryFamilyGetsAGradient) {
  for (const Member& member : kMembers) {
    SCOPED_TRACE(member.text);
    Network network(Create(member), 3);
    ASSERT_TRUE(network.plan->Forward(network.batch).ok());
    ASSERT_TRUE(network.Backward().ok());
    ASSERT_TRUE(network.plan->EnqueueStatistics(nullptr).ok());
    EXPECT_TRUE(std::isfinite(network.plan->Loss()->loss_sum));
    for (const Variable& variable : network.model.variables().variables()) {
      const auto gradient = network.gradients.Slice(variable.range);
      EXPECT_TRUE(std::all_of(gradient.begin(), gradient.end(), [](float x) { return std::isfinite(x); }))
          << variable.name;
      EXPECT_TRUE(std::any_of(gradient.begin(), gradient.end(), [](float x) { return x != 0; }))
          << variable.name;
    }
    const auto evaluation = network.EvaluationPlan(3);
    ASSERT_TRUE(evaluation->Forward(network.batch).ok());
    EXPECT_TRUE(std::isfinite(evaluation->Loss()->loss_sum));
  }
}

}  // namespace
}  // namespace tethys
