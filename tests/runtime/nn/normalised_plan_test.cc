// Tests plans of a model with batch normalisation, which depends on all rows of a batch at once. The tests
// check gradients, padding rows, groups of rows and moving statistics.
#include <algorithm>
#include <cmath>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/runtime/nn/network_fixture.h"

namespace tethys {
namespace {

// A model with two normalisations: the first layer normalises images, a later layer vectors. Both have the
// activation `activation`.
Model NormalisedModel(proto::Activation activation) {
  proto::Model config;
  const std::string field = absl::StrCat("activation: ", proto::Activation_Name(activation));
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("layer { batch_normalisation { epsilon: 0.01 ", field, " } } layer { flatten {} } ",
                   "layer { dense { units: 5 } } layer { batch_normalisation { ", field, " } } ",
                   "layer { dense { units: 3 } }"),
      &config));
  return Model::Create(config, {2, 3, 2}, 3).value();
}

// Scales and offsets that differ between channels.
void VaryScalesAndOffsets(Network& network) {
  for (const Variable& variable : network.model.variables().variables()) {
    if (variable.layout != "channels") continue;
    for (int64_t i = variable.range.begin; i < variable.range.end(); ++i) {
      network.parameters.data()[i] += 0.2f * static_cast<float>(i % 7) - 0.5f;
    }
  }
}

// NormalisedModel in double precision. All rows with a weight above 0 are normalised together.
class NormalisedReference {
 public:
  // `statistics`: null, or an arena of moving statistics to use in place of the statistics of the batch.
  explicit NormalisedReference(const Network& network, const float* statistics = nullptr)
      : network_(network), statistics_(statistics) {}

  double Loss(const std::vector<double>& parameters) const {
    const HostBatch& batch = network_.batch;
    const auto samples =
        static_cast<int64_t>(std::find(batch.weights, batch.weights + batch.rows, 0.0f) - batch.weights);
    std::vector<double> values(samples * network_.model.sample_elements());
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = (batch.inputs[i] / 255.0 - network_.scaling.mean[0]) / network_.scaling.deviation[0];
    }
    for (const Model::Layer& layer : network_.model.layers()) {
      if (layer.config.has_dense()) {
        values = Dense(layer, parameters, values, samples);
      } else if (layer.config.has_activate()) {
        for (double& value : values) value = std::tanh(value);
      } else {
        Normalise(layer, parameters, values);
      }
    }
    double loss = 0;
    for (int64_t row = 0; row < samples; ++row) {
      const double* const logits = values.data() + row * 3;
      double sum = 0;
      for (int i = 0; i < 3; ++i) sum += std::exp(logits[i]);
      loss += batch.weights[row] * (std::log(sum) - logits[batch.labels[row]]);
    }
    return loss;
  }

 private:
  void Normalise(const Model::Layer& layer, const std::vector<double>& parameters,
                 std::vector<double>& values) const {
    const proto::BatchNormalisation& config = layer.config.batch_normalisation();
    const Range scale = layer.variables[0], offset = layer.variables[1];
    const auto count = static_cast<double>(values.size()) / static_cast<double>(scale.count);
    for (int64_t c = 0; c < scale.count; ++c) {
      double mean = 0, variance = 0;
      for (size_t i = c; i < values.size(); i += scale.count) mean += values[i] / count;
      for (size_t i = c; i < values.size(); i += scale.count) {
        variance += (values[i] - mean) * (values[i] - mean) / count;
      }
      if (statistics_ != nullptr) {
        mean = statistics_[layer.statistics[0].begin + c];
        variance = statistics_[layer.statistics[1].begin + c];
      }
      const double deviation = std::sqrt(variance + config.epsilon());
      for (size_t i = c; i < values.size(); i += scale.count) {
        values[i] =
            (values[i] - mean) / deviation * parameters[scale.begin + c] + parameters[offset.begin + c];
        if (config.activation() == proto::RELU) values[i] = std::max(values[i], 0.0);
      }
    }
  }

  static std::vector<double> Dense(const Model::Layer& layer, const std::vector<double>& parameters,
                                   const std::vector<double>& x, int64_t rows) {
    const Range weights = layer.variables[0], bias = layer.variables[1];
    const int64_t out = bias.count, in = weights.count / out;
    std::vector<double> y(rows * out);
    for (int64_t i = 0; i < rows * out; ++i) {
      y[i] = parameters[bias.begin + i % out];
      for (int64_t j = 0; j < in; ++j) {
        y[i] += x[i / out * in + j] * parameters[weights.begin + j * out + i % out];
      }
    }
    return y;
  }

  const Network& network_;
  const float* const statistics_;
};

TEST(NormalisedPlan, BatchNormalisationAgreesWithCentralDifferences) {
  for (const proto::Activation activation : {proto::TANH, proto::RELU}) {
    Network network(NormalisedModel(activation), 6);
    VaryScalesAndOffsets(network);
    network.batch.weights[2] = 0.5f;
    network.batch.weights[5] = 0;
    std::fill_n(network.gradients.data(), network.gradients.size(), std::nanf(""));
    ASSERT_TRUE(network.plan->Forward(network.batch).ok());
    ASSERT_TRUE(network.Backward().ok());
    const NormalisedReference reference(network);
    std::vector<double> parameters = network.DoubleParameters();
    EXPECT_NEAR(network.plan->Loss()->loss_sum / reference.Loss(parameters), 1, 1e-6);
    constexpr double kStep = 1e-5;
    for (const Variable& variable : network.model.variables().variables()) {
      double error = 0, norm = 0;
      for (int64_t i = variable.range.begin; i < variable.range.end(); ++i) {
        const double value = parameters[i];
        parameters[i] = value + kStep;
        const double above = reference.Loss(parameters);
        parameters[i] = value - kStep;
        const double difference = (above - reference.Loss(parameters)) / (2 * kStep);
        parameters[i] = value;
        error += std::pow(network.gradients.data()[i] - difference, 2);
        norm += std::pow(difference, 2);
      }
      // The gradient of a bias that comes before a normalisation is 0.
      EXPECT_LE(std::sqrt(error), 1e-5 * std::sqrt(norm) + 1e-6) << variable.name;
      EXPECT_EQ(norm > 1e-6, variable.name != "dense_2/bias") << variable.name;
    }
  }
}

TEST(NormalisedPlan, RowsOfWeightZeroChangeNoMovingStatistics) {
  Network full(NormalisedModel(proto::RELU), 4), padded(NormalisedModel(proto::RELU), 9);
  const int64_t elements = full.model.sample_elements();
  std::copy_n(full.batch.inputs, 4 * elements, padded.batch.inputs);
  std::fill_n(padded.batch.inputs + 4 * elements, 5 * elements, uint8_t{255});
  std::copy_n(full.batch.labels, 4, padded.batch.labels);
  std::fill_n(padded.batch.weights + 4, 5, 0.0f);
  for (Network* network : {&full, &padded}) {
    ASSERT_TRUE(network->plan->Forward(network->batch).ok());
    ASSERT_TRUE(network->Backward().ok());
    ASSERT_TRUE(network->plan->EnqueueStatistics(nullptr).ok());
  }
  EXPECT_EQ(padded.plan->Loss()->labels, 4);
  EXPECT_EQ(padded.plan->Loss()->loss_sum, full.plan->Loss()->loss_sum);
  const std::vector<double> expected(full.gradients.data(), full.gradients.data() + full.gradients.size());
  EXPECT_LE(Distance(padded.gradients.data(), expected, {0, full.gradients.size()}), 1e-6);
  for (int64_t i = 0; i < full.statistics.size(); ++i) {
    EXPECT_EQ(padded.statistics.data()[i], full.statistics.data()[i]) << i;
  }
  EXPECT_NE(full.statistics.data()[0], 0);
}

TEST(NormalisedPlan, BatchNormalisedInTwoGroupsEqualsTwoWorkersWithHalfTheBatch) {
  Network whole(NormalisedModel(proto::RELU), 8);
  VaryScalesAndOffsets(whole);
  const auto plan = Plan::Compile(whole.model, *whole.device, *whole.stream,
                                  {.rows = 8, .scaling = whole.scaling, .groups = 2},
                                  {.parameters = whole.parameters.data(),
                                   .gradient_sums = whole.gradients.data(),
                                   .statistics = whole.statistics.data()})
                        .value();
  const auto step = [&](Plan& trained, const HostBatch& batch) {
    EXPECT_TRUE(trained.Forward(batch).ok());
    EXPECT_TRUE(trained.Backward([](int64_t, const Event&) { return absl::OkStatus(); }).ok());
    EXPECT_TRUE(trained.EnqueueStatistics(nullptr).ok());
    return trained.Loss()->loss_sum;
  };
  const int64_t elements = whole.model.sample_elements();
  double loss = 0;
  std::vector<double> gradients(whole.gradients.size()), statistics(whole.statistics.size());
  for (const int worker : {0, 1}) {
    Network half(NormalisedModel(proto::RELU), 4);
    VaryScalesAndOffsets(half);
    std::copy_n(whole.batch.inputs + worker * 4 * elements, 4 * elements, half.batch.inputs);
    std::copy_n(whole.batch.labels + worker * 4, 4, half.batch.labels);
    loss += step(*half.plan, half.batch);
    for (size_t i = 0; i < gradients.size(); ++i) gradients[i] += half.gradients.data()[i];
    for (size_t i = 0; i < statistics.size(); ++i) statistics[i] += half.statistics.data()[i] / 2;
  }
  EXPECT_NEAR(step(*plan, whole.batch) / loss, 1, 1e-6);
  EXPECT_LE(Distance(whole.gradients.data(), gradients, {0, whole.gradients.size()}), 1e-5);
  for (size_t i = 0; i < statistics.size(); ++i) {
    EXPECT_NEAR(whole.statistics.data()[i], statistics[i], 1e-5) << i;
  }
  EXPECT_GT(std::abs(step(*whole.plan, whole.batch) / loss - 1), 1e-3) << "one group is another step";
}

TEST(NormalisedPlan, EvaluationUsesMovingStatisticsAndTrainingDoesNot) {
  for (const proto::Activation activation : {proto::TANH, proto::RELU}) {
    Network network(NormalisedModel(activation), 4);
    VaryScalesAndOffsets(network);
    ASSERT_TRUE(network.plan->Forward(network.batch).ok());
    const double trained = network.plan->Loss()->loss_sum;
    for (int64_t i = 0; i < network.statistics.size(); ++i) {
      network.statistics.data()[i] += 0.05f * static_cast<float>(i % 11);
    }
    const NormalisedReference reference(network, network.statistics.data());
    const double expected = reference.Loss(network.DoubleParameters());
    const auto evaluation = network.EvaluationPlan(4);
    ASSERT_TRUE(evaluation->Forward(network.batch).ok());
    EXPECT_NEAR(evaluation->Loss()->loss_sum / expected, 1, 1e-6);
    EXPECT_GT(std::abs(trained - expected), 1e-3);
    ASSERT_TRUE(network.plan->Forward(network.batch).ok());
    EXPECT_EQ(network.plan->Loss()->loss_sum, trained);
  }
}

TEST(NormalisedPlan, RefusedStepLeavesMovingStatisticsUnchanged) {
  Network network(NormalisedModel(proto::RELU), 4);
  const std::vector<float> initial(network.statistics.data(),
                                   network.statistics.data() + network.statistics.size());
  const int32_t refused = 1, accepted = 0;
  ASSERT_TRUE(network.plan->Forward(network.batch).ok());
  ASSERT_TRUE(network.plan->EnqueueStatistics(&refused).ok());
  EXPECT_EQ(std::vector<float>(network.statistics.data(), network.statistics.data() + initial.size()),
            initial);
  ASSERT_TRUE(network.plan->EnqueueStatistics(&accepted).ok());
  EXPECT_NE(std::vector<float>(network.statistics.data(), network.statistics.data() + initial.size()),
            initial);
}

TEST(NormalisedPlan, FrozenNormalisationUsesMovingStatisticsAndLeavesThemUnchanged) {
  proto::Model config;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "layer { batch_normalisation { activation: TANH } trainable: false } layer { flatten {} } "
      "layer { dense { units: 3 } }",
      &config));
  Network network(Model::Create(config, {2, 3, 2}, 3).value(), 4);
  for (int64_t i = 0; i < network.statistics.size(); ++i) {
    network.statistics.data()[i] += 0.05f * static_cast<float>(i % 11);
  }
  const std::vector<float> before(network.statistics.data(),
                                  network.statistics.data() + network.statistics.size());
  const NormalisedReference reference(network, network.statistics.data());
  ASSERT_TRUE(network.plan->Forward(network.batch).ok());
  EXPECT_NEAR(network.plan->Loss()->loss_sum / reference.Loss(network.DoubleParameters()), 1, 1e-6);
  const int32_t accepted = 0;
  int ranges = 0;
  ASSERT_TRUE(network.plan
                  ->Backward([&](int64_t, const Event&) {
                    ++ranges;
                    return absl::OkStatus();
                  })
                  .ok());
  ASSERT_TRUE(network.plan->EnqueueStatistics(&accepted).ok());
  EXPECT_EQ(ranges, 1);
  EXPECT_EQ(std::vector<float>(network.statistics.data(), network.statistics.data() + before.size()), before);
}

}  // namespace
}  // namespace tethys
