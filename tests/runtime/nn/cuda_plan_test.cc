// Compares plans on the CUDA back end, kernels included, with plans on the CPU. The back end runs on the host
// (tests/testing/cuda_on_host.h).
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "runtime/device/cuda/requirements.h"
#include "runtime/nn/memory_forecast.h"
#include "tests/runtime/nn/network_fixture.h"

namespace tethys {
namespace {

constexpr int64_t kRows = 6;

Model Parse(const std::string& layers, const Shape& sample, int64_t classes) {
  proto::Model config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(layers, &config));
  return Model::Create(config, sample, classes).value();
}

// A model that classifies images and has every kind of layer.
Model MakeMixed() {
  return Parse(
      R"(layer { name: "a" convolution { filters: 8 kernel_size: 3 padding: SAME bias: false } }
         layer { name: "b" batch_normalisation { activation: RELU } }
         layer { convolution { filters: 8 kernel_size: 3 padding: SAME activation: RELU groups: 2 } }
         layer { dropout { rate: 0.4 } }
         layer { name: "c" convolution { filters: 8 kernel_size: 3 padding: SAME } }
         layer { input: "c" input: "b" add {} }
         layer { name: "d" activate { activation: RELU } }
         layer { name: "e" input: "b" transposed_convolution { filters: 3 kernel_size: 3 padding: SAME } }
         layer { input: "d" input: "e" concatenation {} }
         layer { max_pooling {} }
         layer { convolution { filters: 6 kernel_size: 3 activation: TANH } }
         layer { average_pooling {} }
         layer { global_average_pooling {} }
         layer { dense { units: 12 activation: SIGMOID } }
         layer { dense { units: 3 } })",
      {14, 14, 2}, 3);
}

// A model that gives a class for each pixel.
Model MakeMap() {
  return Parse(
      R"(layer { convolution { filters: 4 kernel_size: 3 stride: 2 padding: SAME activation: RELU } }
         layer { transposed_convolution { filters: 5 kernel_size: 4 stride: 2 pad: 1 } })",
      {8, 8, 1}, 5);
}

std::unique_ptr<Device> OnHost(bool bf16) { return cuda::CreateDevice({.bf16 = bf16}).value(); }

struct Results {
  double loss = 0;
  std::vector<double> gradients;
  std::vector<double> statistics;
  std::vector<double> outputs;  // The outputs of an evaluation.
};

Results Step(const Model& model, std::unique_ptr<Device> device, int64_t micro_batches, bool recomputes) {
  Network network(model, kRows, {.mean = {0.3f}, .deviation = {0.35f}}, std::move(device));
  std::unique_ptr<Plan> plan = network.TrainingPlan({.rows = kRows,
                                                     .micro_batches = micro_batches,
                                                     .scaling = network.scaling,
                                                     .seed = 3,
                                                     .recomputes = recomputes});
  network.batch.weights[kRows - 1] = 0;
  EXPECT_TRUE(plan->Upload(network.batch).ok() && plan->TakeBatch().ok());
  for (int64_t i = 0; i < micro_batches; ++i) {
    EXPECT_TRUE(plan->Forward(i).ok());
    EXPECT_TRUE(plan->Backward([](int64_t, const Event&) { return absl::OkStatus(); }).ok());
  }
  EXPECT_TRUE(plan->EnqueueStatistics(nullptr).ok());
  std::vector<LossResult> losses(micro_batches);
  EXPECT_TRUE(plan->EnqueueLoss(losses.data()).ok());
  Results results;
  for (const LossResult& loss : losses) results.loss += loss.loss_sum;
  results.gradients.assign(network.gradients.data(), network.gradients.data() + network.gradients.size());
  results.statistics.assign(network.statistics.data(), network.statistics.data() + network.statistics.size());
  std::vector<float> outputs(kRows * model.outputs());
  const auto evaluation = network.EvaluationPlan(kRows);
  EXPECT_TRUE(evaluation->Forward(network.batch).ok());
  EXPECT_TRUE(evaluation->ReadOutputs(outputs.data()).ok());
  results.outputs.assign(outputs.begin(), outputs.end());
  return results;
}

double Error(const std::vector<double>& found, const std::vector<double>& expected) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference += (found[i] - expected[i]) * (found[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

void ExpectNear(const Results& found, const Results& expected, double tolerance) {
  EXPECT_NEAR(found.loss / expected.loss, 1, tolerance);
  EXPECT_LE(Error(found.gradients, expected.gradients), tolerance);
  EXPECT_LE(Error(found.statistics, expected.statistics), tolerance);
  EXPECT_LE(Error(found.outputs, expected.outputs), tolerance);
}

TEST(CudaPlan, CudaStepAgreesWithCpuStepForFloat32AndBfloat16Activations) {
  int number = 0;
  for (const Model& model : {MakeLenet({14, 14}, 5, {4, 6, 20, 10}), MakeMixed(), MakeMap()}) {
    SCOPED_TRACE(number++);
    for (const auto& [micro_batches, recomputes] : {std::pair(1, false), {2, true}}) {
      const Results expected = Step(model, CreateCpuDevice(1).value(), micro_batches, recomputes);
      ExpectNear(Step(model, OnHost(false), micro_batches, recomputes), expected, 1e-5);
      ExpectNear(Step(model, OnHost(true), micro_batches, recomputes), expected, 0.05);
    }
  }
}

// The plan's memory consists of activations, batches, and copies of weights.
TEST(CudaPlan, PlanAllocatesTheMemoryThatTheForecastPredicts) {
  const Model model = MakeLenet();
  const MemoryNeeds needs = {.rows = 64, .on_gpu = true, .evaluates = false};
  int64_t taken[2];
  for (const bool bf16 : {false, true}) {
    const Network network(model, 64, {.mean = {0.3f}, .deviation = {0.35f}}, OnHost(bf16));
    MemoryNeeds of_type = needs;
    of_type.activations = network.device->activation_type();
    const MemoryForecast forecast = ForecastMemory(model, of_type);
    taken[bf16] = network.plan->workspace_bytes();
    const int64_t expected = forecast.activations + forecast.batches;
    EXPECT_GE(taken[bf16], expected * 0.99) << bf16;
    EXPECT_LE(taken[bf16], expected + forecast.copies) << bf16;
  }
  EXPECT_LT(taken[true], 0.6 * taken[false]);
}

TEST(CudaPlan, LearnsWithActivationsInBfloat16) {
  constexpr int kSteps = 40;
  double losses[2];
  for (const bool bf16 : {false, true}) {
    Network network(MakeLenet({10, 10}, 3, {4, 6, 20, 10}), kRows, {.mean = {0.3f}, .deviation = {0.35f}},
                    OnHost(bf16));
    for (int step = 0; step < kSteps; ++step) {
      ASSERT_TRUE(network.plan->Forward(network.batch).ok());
      ASSERT_TRUE(network.Backward().ok());
      for (int64_t i = 0; i < network.parameters.size(); ++i) {
        network.parameters.data()[i] -= 0.005f * network.gradients.data()[i];
      }
    }
    losses[bf16] = network.plan->Loss()->loss_sum;
  }
  EXPECT_LT(losses[false], 1);  // The first loss is about log(10) for each row.
  EXPECT_NEAR(losses[true], losses[false], 0.1 * losses[false]);
}

}  // namespace
}  // namespace tethys
