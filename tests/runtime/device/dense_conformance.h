// Tests of DeviceConformance for dense layers.
#ifndef TETHYS_TESTS_RUNTIME_DEVICE_DENSE_CONFORMANCE_H_
#define TETHYS_TESTS_RUNTIME_DEVICE_DENSE_CONFORMANCE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "runtime/base/random.h"
#include "tests/runtime/device/conformance_fixture.h"

namespace tethys {

// An operand of the product c [m, n] = a b, either a or b. Its element (i, j) is values[i * row + j *
// column].
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
  auto dense = device_->Create(shape).value();
  auto x_device = Activations(x), y = PoisonedActivations(rows * out);
  auto weights_device = Floats(weights), bias_device = Floats(bias);
  ASSERT_TRUE(
      dense->Forward(*stream_, x_device.data(), weights_device.data(), bias_device.data(), y.data()).ok());
  auto expected_y = ReferenceProduct(rows, out, in, {x, in, 1}, {weights, out, 1});
  for (int64_t i = 0; i < rows * out; ++i) {
    expected_y[i] += bias[i % out];
    if (relu) expected_y[i] = std::max(expected_y[i], 0.0);
  }
  const std::vector<float> y_host = y.Host();
  EXPECT_LE(RelativeError(y_host, expected_y), arithmetic_.StoredProductTolerance(in));

  std::vector<float> masked = RandomFactors(rows * out, 4);
  auto dy = Activations(masked), dx = PoisonedActivations(rows * in);
  auto dweights = Poisoned(in * out), dbias = Poisoned(out);
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
            arithmetic_.StoredProductTolerance(out));
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

TEST_P(DeviceConformance, DenseLayersOfManyWeightsAgreeWithDoublePrecision) {
  for (int64_t rows = 1; rows <= 5; ++rows) CheckDense({rows, 1031, 1019, rows % 2 == 0});
}

TEST_P(DeviceConformance, DenseLayerCanSkipItsInputGradient) {
  auto dense = device_->Create(DenseShape{.rows = 2, .in = 3, .out = 4}).value();
  auto x = Activations(RandomFloats(6, 1)), y = Activations(RandomFloats(8, 3)),
       dy = Activations(RandomFloats(8, 4));
  auto weights = Floats(RandomFloats(12, 2)), dweights = Poisoned(12), dbias = Poisoned(4);
  ASSERT_TRUE(dense
                  ->Backward(*stream_, x.data(), weights.data(), y.data(), dy.data(), nullptr,
                             dweights.data(), dbias.data())
                  .ok());
  for (const float value : dweights.Host()) EXPECT_TRUE(std::isfinite(value));
}

TEST_P(DeviceConformance, DenseReluKeepsNaN) {
  auto dense = device_->Create(DenseShape{.rows = 1, .in = 1, .out = 20, .relu = true}).value();
  auto x = Activations({kPoison}), y = Activations(std::vector<float>(20, 0));
  auto weights = Floats(std::vector<float>(20, 1)), bias = Floats(std::vector<float>(20, 0));
  ASSERT_TRUE(dense->Forward(*stream_, x.data(), weights.data(), bias.data(), y.data()).ok());
  for (const float value : y.Host()) EXPECT_TRUE(std::isnan(value));
}

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_DEVICE_DENSE_CONFORMANCE_H_
