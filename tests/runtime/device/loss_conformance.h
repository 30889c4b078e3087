// Tests of DeviceConformance for softmax and cross-entropy.
#ifndef TETHYS_TESTS_RUNTIME_DEVICE_LOSS_CONFORMANCE_H_
#define TETHYS_TESTS_RUNTIME_DEVICE_LOSS_CONFORMANCE_H_

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/runtime/device/conformance_fixture.h"

namespace tethys {

inline DeviceConformance::Loss DeviceConformance::RunLoss(const std::vector<float>& logits,
                                                          const std::vector<int32_t>& labels,
                                                          const std::vector<float>& weights,
                                                          int64_t classes) {
  auto primitive = device_->CreateSoftmaxCrossEntropy(labels.size(), classes).value();
  Array<float> logits_device(*this, logits), weights_device(*this, weights),
      dlogits = Poisoned(logits.size());
  Array<int32_t> labels_device(*this, labels);
  Array<LossResult> result(*this, {LossResult{-1, -1, -1}});
  EXPECT_TRUE(primitive
                  ->Run(*stream_, logits_device.data(), labels_device.data(), weights_device.data(),
                        dlogits.data(), result.data())
                  .ok());
  return {result.Host()[0], dlogits.Host()};
}

TEST_P(DeviceConformance, LossAgreesWithDoublePrecision) {
  for (const int64_t classes : {2, 10, 37}) {
    constexpr int64_t kRows = 33;
    std::vector<float> logits = RandomFloats(kRows * classes, classes);
    for (float& logit : logits) logit *= 20;
    std::vector<int32_t> labels(kRows);
    std::vector<float> weights(kRows, 1);
    for (int64_t r = 0; r < kRows; ++r) labels[r] = static_cast<int32_t>(r % classes);
    weights[3] = 0.25f;
    const Loss loss = RunLoss(logits, labels, weights, classes);

    double expected_loss = 0, weight_sum = 0;
    std::vector<double> expected(kRows * classes);
    for (int64_t r = 0; r < kRows; ++r) {
      double sum = 0;
      for (int64_t c = 0; c < classes; ++c) sum += std::exp(double{logits[r * classes + c]});
      for (int64_t c = 0; c < classes; ++c) {
        expected[r * classes + c] =
            weights[r] * (std::exp(double{logits[r * classes + c]}) / sum - (c == labels[r] ? 1 : 0));
      }
      expected_loss += weights[r] * (std::log(sum) - logits[r * classes + labels[r]]);
      weight_sum += weights[r];
    }
    EXPECT_NEAR(loss.result.loss_sum / expected_loss, 1, 1e-6);
    EXPECT_EQ(loss.result.weight_sum, weight_sum);
    EXPECT_LE(RelativeError(loss.dlogits, expected), 1e-6);
  }
}

TEST_P(DeviceConformance, FirstOfEqualLogitsIsThePrediction) {
  const std::vector<float> logits = {1, 3, 3, 3, 1, 3, 5, 5, 0};
  EXPECT_EQ(RunLoss(logits, {1, 1, 0}, {1, 1, 1}, 3).result.correct, 2);
  EXPECT_EQ(RunLoss(logits, {2, 2, 1}, {1, 1, 1}, 3).result.correct, 0);
}

TEST_P(DeviceConformance, RowsOfWeightZeroAddNothingEvenIfNaN) {
  const std::vector<float> row = {1, 2, 4};
  const std::vector<float> padded = {1, 2, 4, kPoison, kInfinity, 0};
  const Loss alone = RunLoss(row, {2}, {1}, 3);
  const Loss loss = RunLoss(padded, {2, 0}, {1, 0}, 3);
  EXPECT_EQ(loss.result.loss_sum, alone.result.loss_sum);
  EXPECT_EQ(loss.result.correct, 1);
  EXPECT_EQ(loss.result.weight_sum, 1);
  EXPECT_THAT(std::vector<float>(loss.dlogits.begin() + 3, loss.dlogits.end()), ::testing::Each(0.0f));
}

TEST_P(DeviceConformance, LargeLogitsDoNotOverflow) {
  const Loss loss = RunLoss({1e30f, -1e30f, 0, -300, 0, 300}, {0, 0}, {1, 1}, 3);
  EXPECT_EQ(loss.result.loss_sum, 600);
  for (const float value : loss.dlogits) EXPECT_TRUE(std::isfinite(value));
}

TEST_P(DeviceConformance, NaNLogitsGiveANaNLoss) {
  for (const float bad : {kPoison, kInfinity}) {
    for (int position = 0; position < 3; ++position) {
      std::vector<float> logits = {1, 2, 3};
      logits[position] = bad;
      EXPECT_FALSE(std::isfinite(RunLoss(logits, {1}, {1}, 3).result.loss_sum)) << position;
    }
  }
}

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_DEVICE_LOSS_CONFORMANCE_H_
