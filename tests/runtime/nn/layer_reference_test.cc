// Compares every kind of layer with PyTorch: loss and gradients of 300 small networks, 30 for each kind. A
// network is a convolution, the layer in question and a dense layer. reference/make_reference.py made the
// files.
#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/runtime/nn/network_fixture.h"
#include "tests/testing/reference_tensors.h"

namespace tethys {
namespace {

constexpr int64_t kRows = 2, kClasses = 4;
constexpr double kTolerance = 2e-5;
// The absolute tolerance of gradients. If a batch normalisation follows a bias, most of the bias's gradient
// cancels, and a small difference of numbers near 1 remains.
constexpr double kRounding = 1e-7;

const std::string kFolder = TETHYS_REFERENCE_FOLDER;

// The value of element `i` of variable number `variable`, by the formula of make_reference.py.
float Parameter(int64_t variable, int64_t i) {
  return static_cast<float>(static_cast<double>((i * 7919 + variable * 104729) % 2003 - 1001) / 2002.0);
}
uint8_t InputByte(int64_t i) { return static_cast<uint8_t>((i * 2654435761) >> 16); }

// Sets parameters, inputs and labels to the values of the reference.
void Fill(Network& network) {
  int64_t number = 0;
  for (const Variable& variable : network.model.variables().variables()) {
    for (int64_t i = 0; i < variable.range.count; ++i) {
      network.parameters.data()[variable.range.begin + i] = Parameter(number, i);
    }
    ++number;
  }
  for (int64_t i = 0; i < kRows * network.model.sample_elements(); ++i)
    network.batch.inputs[i] = InputByte(i);
  for (int64_t row = 0; row < kRows; ++row) network.batch.labels[row] = static_cast<int32_t>(row % kClasses);
}

// Compares the moving statistics after the step, and then the loss of an evaluation that uses these
// statistics, with `expected` from index `next` on.
void ExpectStatisticsAgree(Network& network, const std::vector<float>& expected, size_t& next) {
  ASSERT_TRUE(network.plan->EnqueueStatistics(nullptr).ok());
  for (const Variable& statistic : network.model.statistics().variables()) {
    ASSERT_LE(next + statistic.range.count, expected.size());
    for (int64_t i = 0; i < statistic.range.count; ++i, ++next) {
      EXPECT_NEAR(network.statistics.data()[statistic.range.begin + i], expected[next], kTolerance)
          << statistic.name;
    }
  }
  const auto evaluation = network.EvaluationPlan(kRows);
  ASSERT_TRUE(evaluation->Forward(network.batch).ok());
  EXPECT_NEAR(evaluation->Loss()->loss_sum, expected[next], kTolerance * expected[next]);
  ++next;
}

// Compares the loss, and the gradients of all variables except the last dense layer's weights, with the
// reference.
void ExpectAgrees(Network& network, const std::vector<float>& expected) {
  ASSERT_TRUE(network.plan->Forward(network.batch).ok());
  ASSERT_TRUE(network.Backward().ok());
  EXPECT_NEAR(network.plan->Loss()->loss_sum, expected[0], kTolerance * expected[0]);
  const auto variables = network.model.variables().variables();
  size_t next = 1;
  for (size_t v = 0; v < variables.size(); ++v) {
    if (v + 2 == variables.size()) continue;
    const Range range = variables[v].range;
    ASSERT_LE(next + range.count, expected.size());
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < range.count; ++i, ++next) {
      const double error = double{network.gradients.data()[range.begin + i]} - expected[next];
      difference += error * error;
      norm += double{expected[next]} * expected[next];
    }
    EXPECT_LE(std::sqrt(difference), kTolerance * std::sqrt(norm) + kRounding) << variables[v].name;
  }
  if (!network.model.statistics().variables().empty()) ExpectStatisticsAgree(network, expected, next);
  EXPECT_EQ(next, expected.size());
}

TEST(LayerReference, LossesAndGradientsAgreeWithPyTorch) {
  auto references = ReadReferenceTensors(kFolder + "/layers.safetensors");
  std::ifstream file(kFolder + "/layers.txt");
  std::string line;
  int compared = 0;
  for (; std::getline(file, line); ++compared) {
    SCOPED_TRACE(line);
    const std::vector<std::string> parts = absl::StrSplit(line, '|');
    ASSERT_EQ(parts.size(), 3u);
    Shape shape;
    for (const absl::string_view axis : absl::StrSplit(parts[1], ' ')) {
      ASSERT_TRUE(absl::SimpleAtoi(axis, &shape.emplace_back()));
    }
    proto::Model config;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(parts[2], &config));
    Network network(Model::Create(config, shape, kClasses).value(), kRows, InputScaling());
    Fill(network);
    ASSERT_FALSE(references[parts[0]].empty());
    ExpectAgrees(network, references[parts[0]]);
  }
  EXPECT_EQ(compared, 300);
}

}  // namespace
}  // namespace tethys
