// Tests plans that compute values again in backward instead of keeping them.
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/runtime/nn/network_fixture.h"

namespace tethys {
namespace {

// A model with every kind of layer whose output can be recomputed. Such layers stand alone and in chains,
// among them an activation after a normalisation, and two sums in a row.
Model RepeatableModel() {
  proto::Model config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(layer { name: "a" convolution { filters: 8 kernel_size: 3 padding: SAME bias: false } }
         layer { name: "b" batch_normalisation { activation: RELU } }
         layer { name: "c" convolution { filters: 8 kernel_size: 3 padding: SAME activation: RELU } }
         layer { dropout { rate: 0.4 } }
         layer { name: "d" convolution { filters: 8 kernel_size: 3 padding: SAME } }
         layer { name: "e" input: "d" input: "b" add {} }
         layer { name: "f" activate { activation: RELU6 } }
         layer { convolution { filters: 8 kernel_size: 3 padding: SAME bias: false } }
         layer { name: "g" batch_normalisation { activation: RELU6 } }
         layer { convolution { filters: 8 kernel_size: 3 padding: SAME bias: false } }
         layer { name: "h" batch_normalisation {} }
         layer { input: "h" input: "f" add {} }
         layer { name: "i" activate { activation: RELU } }
         layer { convolution { filters: 8 kernel_size: 3 padding: SAME bias: false } }
         layer { name: "j" batch_normalisation {} }
         layer { input: "i" input: "j" add {} }
         layer { name: "k" activate { activation: RELU } }
         layer { name: "l" convolution { filters: 4 kernel_size: 1 activation: RELU } }
         layer { input: "k" input: "l" concatenation {} }
         layer { convolution { filters: 8 kernel_size: 1 } }
         layer { max_pooling {} }
         layer { convolution { filters: 4 kernel_size: 3 activation: TANH } }
         layer { average_pooling {} }
         layer { flatten {} }
         layer { dense { units: 3 } })",
      &config));
  return Model::Create(config, {16, 16, 2}, 3).value();
}

// A model whose frozen normalisation (`a`) normalises the batch by moving statistics. Backward of the layer
// `b` reads the batch itself, so the batch is kept and the output of `a` can be computed again.
Model FrozenModel() {
  proto::Model config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(layer { name: "a" batch_normalisation {} trainable: false }
         layer { name: "b" input: "input" convolution { filters: 4 kernel_size: 3 } }
         layer { name: "c" input: "a" convolution { filters: 4 kernel_size: 3 } }
         layer { input: "b" input: "c" add {} }
         layer { flatten {} }
         layer { dense { units: 3 } })",
      &config));
  return Model::Create(config, {16, 16, 2}, 3).value();
}

struct Results {
  std::vector<LossResult> losses;
  std::vector<float> gradients;
  std::vector<float> statistics;
};

Results Step(const Model& model, int64_t micro_batches, bool recomputes) {
  Network network(model, 8);
  std::unique_ptr<Plan> plan = network.TrainingPlan({.rows = 8,
                                                     .micro_batches = micro_batches,
                                                     .scaling = network.scaling,
                                                     .seed = 3,
                                                     .recomputes = recomputes});
  network.batch.weights[7] = 0;
  EXPECT_TRUE(plan->Upload(network.batch).ok() && plan->TakeBatch().ok());
  for (int64_t i = 0; i < micro_batches; ++i) {
    EXPECT_TRUE(plan->Forward(i).ok());
    EXPECT_TRUE(plan->Backward([](int64_t, const Event&) { return absl::OkStatus(); }).ok());
  }
  EXPECT_TRUE(plan->EnqueueStatistics(nullptr).ok());
  Results results;
  results.losses.resize(micro_batches);
  EXPECT_TRUE(plan->EnqueueLoss(results.losses.data()).ok());
  results.gradients.assign(network.gradients.data(), network.gradients.data() + network.gradients.size());
  results.statistics.assign(network.statistics.data(), network.statistics.data() + network.statistics.size());
  return results;
}

TEST(Recomputation, RecomputedStepHasTheSameBitsAsOneThatKeepsActivations) {
  for (const auto& [model, micro_batches] :
       {std::pair(RepeatableModel(), 1), {RepeatableModel(), 2}, {FrozenModel(), 1}}) {
    const Results kept = Step(model, micro_batches, false), again = Step(model, micro_batches, true);
    EXPECT_EQ(again.gradients, kept.gradients) << micro_batches;
    EXPECT_EQ(again.statistics, kept.statistics) << micro_batches;
    for (int64_t i = 0; i < micro_batches; ++i) {
      EXPECT_EQ(again.losses[i].loss_sum, kept.losses[i].loss_sum) << micro_batches;
    }
  }
}

TEST(Recomputation, RecomputationLowersTheMemoryOfTrainingOnly) {
  const Model model = RepeatableModel();
  const int64_t kept = ActivationElements(model, 8, /*trains=*/true).value();
  EXPECT_LT(ActivationElements(model, 8, /*trains=*/true, /*recomputes=*/true).value(), 0.9 * kept);
  EXPECT_EQ(ActivationElements(model, 8, /*trains=*/false, /*recomputes=*/true).value(),
            ActivationElements(model, 8, /*trains=*/false).value());
}

}  // namespace
}  // namespace tethys
