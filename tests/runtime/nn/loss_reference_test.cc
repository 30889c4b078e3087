// Compares every loss with PyTorch: its value and gradients for 30 shapes of each kind.
// reference/make_loss_reference.py made the files.
#include <cstring>
#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "runtime/device/device.h"
#include "tests/testing/reference_tensors.h"

namespace tethys {
namespace {

constexpr double kTolerance = 2e-5;
const std::string kFolder = TETHYS_REFERENCE_FOLDER;

struct Case {
  std::string name, kind;
  int64_t rows = 0, positions = 0, each = 0;
  float smoothing = 0;
  int32_t ignored = -1;
};

Case ParseCase(const std::string& line) {
  const std::vector<std::string> parts = absl::StrSplit(line, '|');
  Case parsed;
  EXPECT_EQ(parts.size(), 7u);
  parsed.name = parts[0];
  parsed.kind = parts[1];
  EXPECT_TRUE(absl::SimpleAtoi(parts[2], &parsed.rows) && absl::SimpleAtoi(parts[3], &parsed.positions) &&
              absl::SimpleAtoi(parts[4], &parsed.each) && absl::SimpleAtof(parts[5], &parsed.smoothing) &&
              absl::SimpleAtoi(parts[6], &parsed.ignored));
  return parsed;
}

// The outputs or targets of a case, by the formula of make_loss_reference.py.
std::vector<float> Outputs(int64_t count, int64_t stride) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>(static_cast<double>((i * stride) % 2003 - 1001) / 200));
  }
  return values;
}

std::vector<int32_t> Labels(const Case& c) {
  std::vector<int32_t> labels;
  if (c.kind == "squared") {
    const std::vector<float> targets = Outputs(c.rows * c.each, 104729);
    labels.resize(targets.size());
    std::memcpy(labels.data(), targets.data(), targets.size() * sizeof(float));
    return labels;
  }
  for (int64_t i = 0; i < c.rows * c.positions; ++i) {
    labels.push_back(c.ignored >= 0 && i % 4 == 2 ? c.ignored : static_cast<int32_t>(i * 31 % c.each));
  }
  return labels;
}

std::unique_ptr<LossPrimitive> CreateLoss(const Case& c, Device& device) {
  if (c.kind == "squared") {
    return device.Create(MeanSquaredErrorShape{.rows = c.rows, .outputs = c.each}).value();
  }
  return device
      .Create(SoftmaxCrossEntropyShape{.rows = c.rows,
                                       .positions = c.positions,
                                       .classes = c.each,
                                       .label_smoothing = c.smoothing,
                                       .ignore_label = c.ignored})
      .value();
}

TEST(LossReference, LossesAndGradientsAgreeWithPyTorch) {
  const std::unique_ptr<Device> device = CreateCpuDevice(1).value();
  const std::unique_ptr<Stream> stream = device->CreateStream().value();
  auto references = ReadReferenceTensors(kFolder + "/losses.safetensors");
  std::ifstream file(kFolder + "/losses.txt");
  std::string line;
  int compared = 0;
  for (; std::getline(file, line); ++compared) {
    SCOPED_TRACE(line);
    const Case c = ParseCase(line);
    const std::vector<float> outputs = Outputs(c.rows * c.positions * c.each, 7919), weights(c.rows, 1);
    const std::vector<int32_t> labels = Labels(c);
    std::vector<float> gradients(outputs.size(), -1);
    LossResult result;
    ASSERT_TRUE(CreateLoss(c, *device)
                    ->Run(*stream, {.outputs = outputs.data(),
                                    .labels = labels.data(),
                                    .weights = weights.data(),
                                    .doutputs = gradients.data(),
                                    .result = &result})
                    .ok());
    const std::vector<float>& expected = references[c.name];
    ASSERT_EQ(expected.size(), outputs.size() + 1);
    EXPECT_NEAR(result.loss_sum, expected[0], kTolerance * expected[0]);
    for (size_t i = 0; i < gradients.size(); ++i) {
      EXPECT_NEAR(gradients[i], expected[i + 1], kTolerance) << "output " << i;
    }
  }
  EXPECT_EQ(compared, 90);
}

}  // namespace
}  // namespace tethys
