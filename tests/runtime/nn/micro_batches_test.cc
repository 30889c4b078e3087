// Tests plans that compute a batch in several parts, one after the other.
#include <gtest/gtest.h>

#include <algorithm>

#include "google/protobuf/text_format.h"
#include "tests/runtime/nn/network_fixture.h"

namespace tethys {
namespace {

// Writes `count` bytes to a batch, as bytes or as equal floats.
void WriteValues(const uint8_t* values, int64_t count, ValueType type, uint8_t* out) {
  if (type == ValueType::kByte) {
    std::copy_n(values, count, out);
  } else {
    std::copy_n(values, count, reinterpret_cast<float*>(out));
  }
}

// Gradients, moving statistics and loss of one step on the first `samples` rows.
struct Result {
  std::vector<double> gradients;
  std::vector<float> statistics;
  double loss_sum = 0;
  double correct = 0;
  std::vector<int64_t> announced;  // The number of gradient ranges that each micro-batch announced.
};

Result Step(const Model& model, int64_t samples, const PlanOptions& options) {
  Network network(model, options.rows, options.scaling);
  network.plan = network.TrainingPlan(options);
  Plan& plan = *network.plan;
  const ValueType type = options.scaling.type;
  BatchBuffer buffer(plan.rows(), model.sample_elements() * BytesOf(type));
  // The batch has the same samples for any number of parts, followed by poisoned rows of weight 0.
  FillRandom(network.batch, model.sample_elements(), model.classes(), 0);
  const HostBatch batch = buffer.batch();
  const std::vector<uint8_t> poison(plan.rows() * model.sample_elements(), 255);
  WriteValues(poison.data(), plan.rows() * model.sample_elements(), type, batch.inputs);
  WriteValues(network.batch.inputs, samples * model.sample_elements(), type, batch.inputs);
  std::copy_n(network.batch.labels, samples, batch.labels);
  std::fill_n(batch.weights, plan.rows(), 0.0f);
  std::fill_n(batch.weights, samples, 1.0f);

  const int64_t parts = plan.micro_batches(), rows = plan.rows() / parts;
  std::vector<StepNumbers> numbers(parts);
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t own = std::clamp<int64_t>(samples - i * rows, 0, rows);
    numbers[i].first_sample = static_cast<uint64_t>(i * rows);
    numbers[i].statistics_share = static_cast<float>(own) / static_cast<float>(samples);
  }
  EXPECT_TRUE(plan.EnqueueStepNumbers(numbers.data()).ok());
  EXPECT_TRUE(plan.Upload(batch).ok());
  EXPECT_TRUE(plan.TakeBatch().ok());
  Result result;
  // The old values of the gradients must not matter.
  std::fill_n(network.gradients.data(), network.gradients.size(), 1e6f);
  for (int64_t i = 0; i < parts; ++i) {
    EXPECT_TRUE(plan.Forward(i).ok());
    result.announced.push_back(0);
    EXPECT_TRUE(plan.Backward([&](int64_t, const Event&) {
                      ++result.announced.back();
                      return absl::OkStatus();
                    })
                    .ok());
  }
  EXPECT_TRUE(plan.EnqueueStatistics(nullptr).ok());
  std::vector<LossResult> losses(parts);
  EXPECT_TRUE(plan.EnqueueLoss(losses.data()).ok());
  EXPECT_TRUE(network.stream->Synchronize().ok());
  for (const LossResult& loss : losses) {
    result.loss_sum += loss.loss_sum;
    result.correct += loss.correct;
  }
  for (const Variable& variable : model.variables().variables()) {
    const float* const begin = network.gradients.data() + variable.range.begin;
    result.gradients.insert(result.gradients.end(), begin, begin + variable.range.count);
  }
  result.statistics.assign(network.statistics.data(), network.statistics.data() + network.statistics.size());
  return result;
}

double Distance(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

Model Parse(const std::string& text) {
  proto::Model config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config)) << text;
  return Model::Create(config, {8, 8, 2}, 3).value();
}

// With mean 0, the deviation 255 standardises floats to the same bits as bytes, which are divided by 255.
TEST(MicroBatches, FloatInputsGiveTheSameGradientBitsAsByteInputsOfEqualValue) {
  const Model model = Parse(R"(
      layer { convolution { filters: 4 kernel_size: 3 activation: RELU } }
      layer { flatten {} } layer { dense { units: 3 } })");
  for (const int64_t parts : {1, 3}) {
    const Result bytes = Step(model, 11, {.rows = 12, .micro_batches = parts});
    const Result floats =
        Step(model, 11, {.rows = 12, .micro_batches = parts, .scaling = {{0}, {255}, ValueType::kFloat}});
    EXPECT_EQ(floats.gradients, bytes.gradients) << parts;
    EXPECT_EQ(floats.loss_sum, bytes.loss_sum) << parts;
  }
}

TEST(MicroBatches, GradientsAddUpToTheGradientsOfTheBatch) {
  const Model model = Parse(
      "layer { convolution { filters: 4 kernel_size: 3 activation: TANH } } layer { flatten {} } "
      "layer { dropout { rate: 0.4 } } layer { dense { units: 7 activation: TANH } } layer { dense { units: "
      "3 } }");
  const auto ranges = static_cast<int64_t>(model.ready_order().size());
  for (const int64_t samples : {10, 7, 1}) {
    const Result whole = Step(model, samples, {.rows = 10, .seed = 4});
    EXPECT_EQ(whole.announced, std::vector<int64_t>{ranges});
    for (const int64_t parts : {2, 3, 5, 10}) {
      const Result result = Step(model, samples, {.rows = 10, .micro_batches = parts, .seed = 4});
      EXPECT_LE(Distance(result.gradients, whole.gradients), 1e-5) << parts;
      EXPECT_NEAR(result.loss_sum / whole.loss_sum, 1, 1e-6) << parts;
      EXPECT_EQ(result.correct, whole.correct) << parts;
      EXPECT_EQ(std::count(result.announced.begin(), result.announced.end() - 1, 0), parts - 1);
      EXPECT_EQ(result.announced.back(), ranges);
    }
  }
}

TEST(MicroBatches, EachMicroBatchIsNormalisedByItself) {
  const Model model = Parse(
      "layer { convolution { filters: 4 kernel_size: 3 bias: false } } "
      "layer { batch_normalisation { activation: TANH } } layer { flatten {} } layer { dense { units: 3 } "
      "} ");
  const Result groups = Step(model, 12, {.rows = 12, .groups = 3});
  const Result parts = Step(model, 12, {.rows = 12, .micro_batches = 3});
  const Result whole = Step(model, 12, {.rows = 12});
  EXPECT_LE(Distance(parts.gradients, groups.gradients), 1e-5);
  EXPECT_GT(Distance(parts.gradients, whole.gradients), 1e-3);
  for (size_t i = 0; i < groups.statistics.size(); ++i) {
    EXPECT_NEAR(parts.statistics[i], groups.statistics[i], 1e-6) << i;
  }
}

TEST(MicroBatches, MicroBatchWithoutSamplesChangesNeitherGradientsNorStatistics) {
  const Model model =
      Parse("layer { batch_normalisation {} } layer { flatten {} } layer { dense { units: 3 } } ");
  const Result one = Step(model, 4, {.rows = 8});
  const Result two = Step(model, 4, {.rows = 8, .micro_batches = 2});
  EXPECT_LE(Distance(two.gradients, one.gradients), 1e-6);
  for (size_t i = 0; i < one.statistics.size(); ++i) {
    EXPECT_NEAR(two.statistics[i], one.statistics[i], 1e-6) << i;
  }
}

TEST(MicroBatches, GradientsOfFrozenLayersAreNotAddedUp) {
  const Model model = Parse(
      "layer { flatten {} } layer { name: 'a' dense { units: 5 activation: TANH } } "
      "layer { name: 'b' dense { units: 5 activation: TANH } trainable: false } layer { dense { units: 3 } "
      "}");
  const Result whole = Step(model, 6, {.rows = 6});
  const Result parts = Step(model, 6, {.rows = 6, .micro_batches = 3});
  // The gradients of the frozen layer are not compared. With several parts they are not written, and with one
  // part they are not used.
  std::vector<double> expected, found;
  int64_t position = 0;
  for (const Variable& variable : model.variables().variables()) {
    if (variable.trainable) {
      const auto begin = position, end = position + variable.range.count;
      expected.insert(expected.end(), whole.gradients.begin() + begin, whole.gradients.begin() + end);
      found.insert(found.end(), parts.gradients.begin() + begin, parts.gradients.begin() + end);
    }
    position += variable.range.count;
  }
  EXPECT_LE(Distance(found, expected), 1e-5);
}

}  // namespace
}  // namespace tethys
