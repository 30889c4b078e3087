// Tests of DeviceConformance for the losses.
#ifndef TETHYS_TESTS_RUNTIME_DEVICE_LOSS_CONFORMANCE_H_
#define TETHYS_TESTS_RUNTIME_DEVICE_LOSS_CONFORMANCE_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/runtime/device/conformance_fixture.h"

namespace tethys {

inline DeviceConformance::Loss DeviceConformance::RunLoss(LossPrimitive& primitive,
                                                          const std::vector<float>& outputs,
                                                          const std::vector<int32_t>& labels,
                                                          const std::vector<float>& weights,
                                                          int64_t classes) {
  Array<float> weights_device(*this, weights);
  auto outputs_device = Activations(outputs), doutputs = PoisonedActivations(outputs.size());
  Array<int32_t> labels_device(*this, labels);
  Array<LossResult> result(*this, {LossResult{-1, -1, -1, -1}});
  Array<int64_t> confusion(*this, std::vector<int64_t>(classes * classes, 1000));
  EXPECT_TRUE(primitive
                  .Run(*stream_, {.outputs = outputs_device.data(),
                                  .labels = labels_device.data(),
                                  .weights = weights_device.data(),
                                  .doutputs = doutputs.data(),
                                  .result = result.data(),
                                  .confusion = classes > 0 ? confusion.data() : nullptr})
                  .ok());
  Loss loss = {result.Host()[0], doutputs.Host(), confusion.Host()};
  for (int64_t& count : loss.confusion) count -= 1000;
  return loss;
}

inline DeviceConformance::Loss DeviceConformance::RunSoftmax(const SoftmaxCrossEntropyShape& shape,
                                                             const std::vector<float>& outputs,
                                                             const std::vector<int32_t>& labels,
                                                             const std::vector<float>& weights) {
  return RunLoss(*device_->Create(shape).value(), outputs, labels, weights, shape.classes);
}

// The results of SoftmaxCrossEntropyPrimitive, computed in double precision from the definition.
struct ExpectedLoss {
  ExpectedLoss(const SoftmaxCrossEntropyShape& shape, const std::vector<float>& outputs,
               const std::vector<int32_t>& labels, const std::vector<float>& weights)
      : doutputs(outputs.size()), confusion(shape.classes * shape.classes) {
    const int64_t classes = shape.classes;
    for (int64_t p = 0; p < shape.points(); ++p) {
      const float* x = outputs.data() + p * classes;
      const double weight = weights[p / shape.positions];
      if (weight == 0 || labels[p] == shape.ignore_label) continue;
      double sum = 0;
      for (int64_t c = 0; c < classes; ++c) sum += std::exp(double{x[c]});
      int64_t prediction = 0, larger = 0;
      for (int64_t c = 0; c < classes; ++c) {
        const double target = (c == labels[p] ? 1.0 - shape.label_smoothing : 0) +
                              static_cast<double>(shape.label_smoothing) / static_cast<double>(classes);
        const double share = weight / static_cast<double>(shape.positions);
        loss_sum -= share * target * (x[c] - std::log(sum));
        doutputs[p * classes + c] = share * (std::exp(double{x[c]}) / sum - target);
        if (x[c] > x[prediction]) prediction = c;
        if (x[c] > x[labels[p]] || (x[c] == x[labels[p]] && c < labels[p])) ++larger;
      }
      this->labels += weight;
      correct += prediction == labels[p] ? weight : 0;
      correct_top5 += larger < 5 ? weight : 0;
      ++confusion[labels[p] * classes + prediction];
    }
  }

  double loss_sum = 0, labels = 0, correct = 0, correct_top5 = 0;
  std::vector<double> doutputs;
  std::vector<int64_t> confusion;
};

TEST_P(DeviceConformance, SoftmaxCrossEntropyAgreesWithDoublePrecision) {
  const std::vector<SoftmaxCrossEntropyShape> shapes = {
      {.rows = 33, .classes = 2},
      {.rows = 33, .classes = 10},
      {.rows = 33, .classes = 37, .counts_top5 = true},
      {.rows = 9, .classes = 7, .label_smoothing = 0.1f, .counts_top5 = true},
      {.rows = 5, .positions = 77, .classes = 6, .ignore_label = 255, .counts_top5 = true},
      {.rows = 3, .positions = 12, .classes = 33, .label_smoothing = 0.2f, .ignore_label = 4}};
  for (const SoftmaxCrossEntropyShape& shape : shapes) {
    std::vector<float> outputs = RandomFloats(shape.points() * shape.classes, shape.classes);
    for (float& output : outputs) output = arithmetic_.Stored(20 * output);
    std::vector<int32_t> labels(shape.points());
    for (int64_t p = 0; p < shape.points(); ++p) {
      const bool ignored = shape.ignore_label >= 0 && p % 3 == 1;
      labels[p] = ignored ? shape.ignore_label : static_cast<int32_t>(p % shape.classes);
    }
    std::vector<float> weights(shape.rows, 1);
    weights[shape.rows - 1] = 0;
    const Loss loss = RunSoftmax(shape, outputs, labels, weights);
    const ExpectedLoss expected(shape, outputs, labels, weights);
    EXPECT_NEAR(loss.result.loss_sum / expected.loss_sum, 1, 1e-6);
    EXPECT_EQ(loss.result.labels, expected.labels);
    EXPECT_EQ(loss.result.correct, expected.correct);
    EXPECT_EQ(loss.result.correct_top5, shape.counts_top5 ? expected.correct_top5 : 0);
    EXPECT_EQ(loss.confusion, expected.confusion);
    EXPECT_LE(RelativeError(loss.doutputs, expected.doutputs), arithmetic_.StoredTolerance(1e-6));
  }
}

TEST_P(DeviceConformance, MeanSquaredErrorAgreesWithDoublePrecision) {
  constexpr int64_t kRows = 5;
  for (const int64_t each : {1, 3, 70}) {
    const std::vector<float> outputs = RandomActivations(kRows * each, 1),
                             targets = RandomFloats(kRows * each, 2);
    std::vector<int32_t> labels(targets.size());
    std::memcpy(labels.data(), targets.data(), targets.size() * sizeof(float));
    const std::vector<float> weights = {1, 1, 0, 1, 1};
    const auto primitive = device_->Create(MeanSquaredErrorShape{.rows = kRows, .outputs = each}).value();
    const Loss loss = RunLoss(*primitive, outputs, labels, weights, 0);
    double expected = 0;
    std::vector<double> gradients(outputs.size());
    for (int64_t i = 0; i < kRows * each; ++i) {
      const double difference = weights[i / each] * (double{outputs[i]} - targets[i]);
      expected += difference * difference / static_cast<double>(each);
      gradients[i] = 2 * difference / static_cast<double>(each);
    }
    EXPECT_NEAR(loss.result.loss_sum / expected, 1, 1e-6);
    EXPECT_EQ(loss.result.labels, 0);
    EXPECT_EQ(loss.result.correct, 0);
    EXPECT_LE(RelativeError(loss.doutputs, gradients), arithmetic_.StoredTolerance(1e-6));
  }
}

TEST_P(DeviceConformance, FirstOfEqualLargestLogitsIsThePrediction) {
  const std::vector<float> logits = {1, 3, 3, 3, 1, 3, 5, 5, 0};
  EXPECT_EQ(RunSoftmax(logits, {1, 1, 0}, {1, 1, 1}, 3).result.correct, 2);
  EXPECT_EQ(RunSoftmax(logits, {2, 2, 1}, {1, 1, 1}, 3).result.correct, 0);
}

TEST_P(DeviceConformance, RowsOfWeightZeroAddNothingEvenIfNaN) {
  const std::vector<float> row = {1, 2, 4};
  const std::vector<float> padded = {1, 2, 4, kPoison, kInfinity, 0};
  const Loss alone = RunSoftmax(row, {2}, {1}, 3);
  const Loss loss = RunSoftmax(padded, {2, 0}, {1, 0}, 3);
  EXPECT_EQ(loss.result.loss_sum, alone.result.loss_sum);
  EXPECT_EQ(loss.result.correct, 1);
  EXPECT_EQ(loss.result.labels, 1);
  EXPECT_THAT(std::vector<float>(loss.doutputs.begin() + 3, loss.doutputs.end()), ::testing::Each(0.0f));
}

TEST_P(DeviceConformance, LargeLogitsDoNotOverflow) {
  const Loss loss = RunSoftmax({1e30f, -1e30f, 0, -300, 0, 300}, {0, 0}, {1, 1}, 3);
  EXPECT_EQ(loss.result.loss_sum, 600);
  for (const float value : loss.doutputs) EXPECT_TRUE(std::isfinite(value));
}

TEST_P(DeviceConformance, NonFiniteLogitsGiveANonFiniteLoss) {
  for (const float bad : {kPoison, kInfinity}) {
    for (int position = 0; position < 3; ++position) {
      std::vector<float> logits = {1, 2, 3};
      logits[position] = bad;
      EXPECT_FALSE(std::isfinite(RunSoftmax(logits, {1}, {1}, 3).result.loss_sum)) << position;
    }
  }
}

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_DEVICE_LOSS_CONFORMANCE_H_
