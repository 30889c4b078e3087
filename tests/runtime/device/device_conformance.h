// What every Device must do, against references in double precision. A back end's test includes this and
// instantiates the suite with a way to make the device, and what it computes products in:
//
//   INSTANTIATE_TEST_SUITE_P(Cpu, DeviceConformance,
//                            ::testing::Values(DeviceCase{[] { return CreateCpuDevice(1); }, kFloat32}));
//
// Outputs are poisoned with NaN before every run, so what is not written is noticed.
#ifndef TETHYS_TESTS_RUNTIME_DEVICE_DEVICE_CONFORMANCE_H_
#define TETHYS_TESTS_RUNTIME_DEVICE_DEVICE_CONFORMANCE_H_

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/random.h"
#include "runtime/device/device.h"
#include "tests/runtime/device/arithmetic.h"

namespace tethys {

struct DeviceCase {
  std::function<absl::StatusOr<std::unique_ptr<Device>>()> create;
  Arithmetic arithmetic;
};

class DeviceConformance : public ::testing::TestWithParam<DeviceCase> {
 protected:
  DeviceConformance()
      : arithmetic_(GetParam().arithmetic),
        device_(GetParam().create().value()),
        stream_(device_->CreateStream().value()) {}

  // RandomFloats that the device's products take as they are.
  std::vector<float> RandomFactors(int64_t count, uint64_t key) const {
    std::vector<float> values = RandomFloats(count, key);
    for (float& value : values) value = RoundedTo(arithmetic_.factor_bits, value);
    return values;
  }

  // Device memory that holds a copy of host values.
  template <typename T>
  class Array {
   public:
    Array(DeviceConformance& test, const std::vector<T>& values)
        : test_(test),
          count_(values.size()),
          buffer_(test.device_->Allocate(count_ * sizeof(T), MemoryKind::kDevice).value()) {
      EXPECT_TRUE(
          test.device_->CopyToDevice(*test.stream_, buffer_->data(), values.data(), count_ * sizeof(T)).ok());
    }
    T* data() { return static_cast<T*>(buffer_->data()); }
    std::vector<T> Host() {
      std::vector<T> values(count_);
      EXPECT_TRUE(test_.device_->CopyToHost(*test_.stream_, values.data(), data(), count_ * sizeof(T)).ok());
      EXPECT_TRUE(test_.stream_->Synchronize().ok());
      return values;
    }

   private:
    DeviceConformance& test_;
    int64_t count_;
    std::unique_ptr<Buffer> buffer_;
  };
  Array<float> Floats(const std::vector<float>& values) { return {*this, values}; }
  Array<float> Poisoned(int64_t count) { return {*this, std::vector<float>(count, kPoison)}; }

  void CheckDense(const DenseShape& shape);
  struct Loss {
    LossResult result;
    std::vector<float> dlogits;
  };
  Loss RunLoss(const std::vector<float>& logits, const std::vector<int32_t>& labels,
               const std::vector<float>& weights, int64_t classes);

  const Arithmetic arithmetic_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
};

// c [m, n] = a b in double; element (i, j) of an operand lies at i * row + j * column.
struct Operand {
  const std::vector<float>& values;
  int64_t row, column;
  double At(int64_t i, int64_t j) const { return values[i * row + j * column]; }
};
inline std::vector<double> ReferenceProduct(int64_t m, int64_t n, int64_t k, const Operand& a,
                                            const Operand& b) {
  std::vector<double> c(m * n);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t j = 0; j < n; ++j) c[i * n + j] += a.At(i, p) * b.At(p, j);
    }
  }
  return c;
}

inline void DeviceConformance::CheckDense(const DenseShape& shape) {
  SCOPED_TRACE(::testing::Message() << shape.rows << " x " << shape.in << " x " << shape.out << " relu "
                                    << shape.relu);
  const auto [rows, in, out, relu] = shape;
  const auto x = RandomFactors(rows * in, 1), weights = RandomFactors(in * out, 2),
             bias = RandomFloats(out, 3);
  auto dense = device_->CreateDense(shape).value();
  auto x_device = Floats(x), weights_device = Floats(weights), bias_device = Floats(bias),
       y = Poisoned(rows * out);
  ASSERT_TRUE(
      dense->Forward(*stream_, x_device.data(), weights_device.data(), bias_device.data(), y.data()).ok());
  auto expected_y = ReferenceProduct(rows, out, in, {x, in, 1}, {weights, out, 1});
  for (int64_t i = 0; i < rows * out; ++i) {
    expected_y[i] += bias[i % out];
    if (relu) expected_y[i] = std::max(expected_y[i], 0.0);
  }
  const std::vector<float> y_host = y.Host();
  EXPECT_LE(RelativeError(y_host, expected_y), arithmetic_.ProductTolerance(in));

  std::vector<float> masked = RandomFactors(rows * out, 4);
  auto dy = Floats(masked), dx = Poisoned(rows * in), dweights = Poisoned(in * out), dbias = Poisoned(out);
  ASSERT_TRUE(dense
                  ->Backward(*stream_, x_device.data(), weights_device.data(), y.data(), dy.data(), dx.data(),
                             dweights.data(), dbias.data())
                  .ok());
  std::vector<double> expected_dbias(out);
  for (int64_t i = 0; i < rows * out; ++i) {
    if (relu && !(y_host[i] > 0)) masked[i] = 0;
    expected_dbias[i % out] += masked[i];
  }
  EXPECT_EQ(dy.Host(), masked);
  EXPECT_LE(RelativeError(dbias.Host(), expected_dbias), Arithmetic::SumTolerance(rows));
  EXPECT_LE(RelativeError(dweights.Host(), ReferenceProduct(in, out, rows, {x, 1, in}, {masked, out, 1})),
            arithmetic_.ProductTolerance(rows));
  EXPECT_LE(RelativeError(dx.Host(), ReferenceProduct(rows, in, out, {masked, out, 1}, {weights, 1, out})),
            arithmetic_.ProductTolerance(out));
}

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

TEST_P(DeviceConformance, BuffersAreZeroedAndAligned) {
  for (const int64_t bytes : {0, 1, 63, 64, 1000003}) {
    auto buffer = device_->Allocate(bytes, MemoryKind::kDevice).value();
    EXPECT_EQ(buffer->bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 64, 0u);
    std::vector<char> host(bytes, 'x');
    ASSERT_TRUE(device_->CopyToHost(*stream_, host.data(), buffer->data(), bytes).ok());
    ASSERT_TRUE(stream_->Synchronize().ok());
    EXPECT_THAT(host, ::testing::Each('\0'));
  }
  EXPECT_FALSE(device_->Allocate(-1, MemoryKind::kDevice).ok());
}

TEST_P(DeviceConformance, DenseLayersAgreeWithDoublePrecisionInAllShapes) {
  for (const bool relu : {false, true}) {
    CheckDense({128, 784, 128, relu});
    CheckDense({128, 128, 10, relu});
    CheckDense({1, 1, 1, relu});
    CheckDense({1, 784, 10, relu});
    CheckDense({22, 300, 100, relu});
    RandomStream stream(1, RandomPurpose::kTest, relu);
    for (int i = 0; i < 20; ++i) {
      const int64_t rows = 1 + stream.NextBelow(70), in = 1 + stream.NextBelow(150),
                    out = 1 + stream.NextBelow(90);
      CheckDense({rows, in, out, relu});
    }
  }
}

TEST_P(DeviceConformance, TheInputGradientMayBeLeftOut) {
  auto dense = device_->CreateDense({.rows = 2, .in = 3, .out = 4}).value();
  auto x = Floats(RandomFloats(6, 1)), weights = Floats(RandomFloats(12, 2)), y = Floats(RandomFloats(8, 3));
  auto dy = Floats(RandomFloats(8, 4)), dweights = Poisoned(12), dbias = Poisoned(4);
  ASSERT_TRUE(dense
                  ->Backward(*stream_, x.data(), weights.data(), y.data(), dy.data(), nullptr,
                             dweights.data(), dbias.data())
                  .ok());
  for (const float value : dweights.Host()) EXPECT_TRUE(std::isfinite(value));
}

TEST_P(DeviceConformance, ReluPassesNaNOn) {
  auto dense = device_->CreateDense({.rows = 1, .in = 1, .out = 20, .relu = true}).value();
  auto x = Floats({kPoison}), weights = Floats(std::vector<float>(20, 1)),
       bias = Floats(std::vector<float>(20, 0));
  auto y = Floats(std::vector<float>(20, 0));
  ASSERT_TRUE(dense->Forward(*stream_, x.data(), weights.data(), bias.data(), y.data()).ok());
  for (const float value : y.Host()) EXPECT_TRUE(std::isnan(value));
}

TEST_P(DeviceConformance, ShapesWithoutElementsAreRefused) {
  EXPECT_EQ(device_->CreateDense({.rows = 0, .in = 1, .out = 1}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(device_->CreateDense({.rows = 1, .in = -1, .out = 1}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(device_->CreateSoftmaxCrossEntropy(1, 0).ok());
  EXPECT_FALSE(device_->CreateInputConversion(1, 0, 0).ok());
  EXPECT_FALSE(device_->CreateSgd({}, 1.0f).ok());
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

TEST_P(DeviceConformance, OfEqualLogitsTheFirstIsThePrediction) {
  const std::vector<float> logits = {1, 3, 3, 3, 1, 3, 5, 5, 0};
  EXPECT_EQ(RunLoss(logits, {1, 1, 0}, {1, 1, 1}, 3).result.correct, 2);
  EXPECT_EQ(RunLoss(logits, {2, 2, 1}, {1, 1, 1}, 3).result.correct, 0);
}

TEST_P(DeviceConformance, RowsOfWeightZeroCountNothingWhateverTheyHold) {
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

TEST_P(DeviceConformance, BytesAreStandardised) {
  std::vector<uint8_t> bytes(256 + 7);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i);
  Array<uint8_t> in(*this, bytes);
  auto out = Poisoned(bytes.size());
  auto conversion = device_->CreateInputConversion(bytes.size(), 0.2860f, 0.3530f).value();
  ASSERT_TRUE(conversion->Run(*stream_, in.data(), out.data()).ok());
  const std::vector<float> host = out.Host();
  for (size_t i = 0; i < bytes.size(); ++i) EXPECT_NEAR(host[i], (bytes[i] / 255.0 - 0.2860) / 0.3530, 1e-6);
}

TEST_P(DeviceConformance, SgdUpdatesItsSegmentsAndNothingElse) {
  const std::vector<float> w = RandomFloats(100, 1), g = RandomFloats(100, 2), v = RandomFloats(100, 3);
  const std::vector<Segment> segments = {{{0, 33}, 0.1f}, {{48, 50}, 0}};
  for (const float momentum : {0.0f, 0.9f}) {
    auto sgd = device_->CreateSgd(segments, momentum).value();
    auto w_device = Floats(w), g_device = Floats(g), v_device = Floats(v);
    Array<SgdRates> rates(*this, {{.learning_rate = 0.5f, .gradient_scale = 0.25f}});
    Array<int32_t> bad(*this, {0});
    ASSERT_TRUE(sgd->Run(*stream_, {.rates = rates.data()}, w_device.data(), g_device.data(),
                         momentum == 0 ? nullptr : v_device.data(), bad.data())
                    .ok());
    std::vector<double> expected_w(w.begin(), w.end()), expected_v(v.begin(), v.end());
    for (const auto& [range, decay] : segments) {
      for (int64_t i = range.begin; i < range.end(); ++i) {
        const double step = g[i] * 0.25 + double{decay} * w[i] + double{momentum} * v[i];
        if (momentum != 0) expected_v[i] = step;
        expected_w[i] = w[i] - 0.5 * (momentum != 0 ? step : g[i] * 0.25 + double{decay} * w[i]);
      }
    }
    EXPECT_LE(RelativeError(w_device.Host(), expected_w), 1e-7);
    EXPECT_LE(RelativeError(v_device.Host(), expected_v), 1e-7);
    EXPECT_EQ(w_device.Host()[40], w[40]);
    EXPECT_EQ(bad.Host()[0], 0);
  }
}

TEST_P(DeviceConformance, OneBadGradientStopsThisUpdateAndAllThatFollow) {
  const std::vector<float> w = RandomFloats(100, 1), v = RandomFloats(100, 3), good = RandomFloats(100, 2);
  auto sgd = device_->CreateSgd({{{0, 33}, 0.1f}, {{48, 50}, 0}}, 0.9f).value();
  Array<SgdRates> rates(*this, {{.learning_rate = 0.5f}});
  auto good_device = Floats(good);
  for (const float value : {kPoison, -kPoison, kInfinity, -kInfinity}) {
    for (const int64_t position : {0, 32, 48, 97}) {
      std::vector<float> g = good;
      g[position] = value;
      auto w_device = Floats(w), g_device = Floats(g), v_device = Floats(v);
      Array<int32_t> bad(*this, {0});
      for (const float* gradients : {g_device.data(), good_device.data()}) {
        ASSERT_TRUE(sgd->Run(*stream_, {.rates = rates.data()}, w_device.data(), gradients, v_device.data(),
                             bad.data())
                        .ok());
        EXPECT_EQ(bad.Host()[0], 1) << value << " at " << position;
        EXPECT_EQ(w_device.Host(), w);
        EXPECT_EQ(v_device.Host(), v);
      }
    }
  }
}

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_DEVICE_DEVICE_CONFORMANCE_H_
