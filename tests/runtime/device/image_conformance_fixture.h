// Compares a device's convolution or max pooling of one shape, forward and backward, with double precision.
// The tests are in image_conformance.h.
#ifndef TETHYS_TESTS_RUNTIME_DEVICE_IMAGE_CONFORMANCE_FIXTURE_H_
#define TETHYS_TESTS_RUNTIME_DEVICE_IMAGE_CONFORMANCE_FIXTURE_H_

#include <algorithm>
#include <iostream>
#include <utility>
#include <vector>

#include "tests/runtime/device/device_conformance.h"
#include "tests/testing/reference_images.h"

namespace tethys {

class ImageConformance : public DeviceConformance {
 protected:
  void CheckConvolution(const ConvolutionShape& shape);
  // Checks the convolution with and without relu, with and without bias.
  void CheckConvolutionInAllForms(ConvolutionShape shape);
  // Checks that running forward and backward twice gives the same bits. Prints which algorithms ran.
  void CheckConvolutionRerun(const ConvolutionShape& shape);
  void CheckMaxPooling(const MaxPoolingShape& shape);
  void CheckAveragePooling(const AveragePoolingShape& shape);
};

inline void ImageConformance::CheckConvolution(const ConvolutionShape& shape) {
  const int64_t outputs = shape.rows * shape.output().elements();
  const int64_t filter_count = shape.filters();
  const int64_t window = filter_count / shape.out, pixels = outputs / shape.out;
  const auto x = RandomFactors(shape.rows * shape.in.elements(), 1), filters = RandomFactors(filter_count, 2),
             bias = RandomFloats(shape.out, 3);
  std::vector<float> masked = RandomFactors(outputs, 4);
  auto convolution = device_->Create(shape).value();
  auto x_device = Activations(x), y = PoisonedActivations(outputs);
  auto filters_device = Floats(filters), bias_device = Floats(bias);
  ASSERT_TRUE(convolution
                  ->Forward(*stream_, x_device.data(), filters_device.data(),
                            shape.has_bias ? bias_device.data() : nullptr, y.data())
                  .ok());
  std::vector<double> expected_y(outputs);
  for (int64_t i = 0; i < outputs; ++i) expected_y[i] = shape.has_bias ? bias[i % shape.out] : 0;
  ForEachProduct(shape, [&](int64_t from, int64_t filter, int64_t to) {
    expected_y[to] += double{x[from]} * filters[filter];
  });
  for (double& value : expected_y) value = shape.relu ? std::max(value, 0.0) : value;
  const std::vector<float> y_host = y.Host();
  EXPECT_LE(RelativeError(y_host, expected_y), arithmetic_.StoredProductTolerance(window));

  auto dy = Activations(masked), dx = PoisonedActivations(x.size());
  auto dfilters = Poisoned(filter_count), dbias = Poisoned(shape.out);
  ASSERT_TRUE(convolution
                  ->Backward(*stream_, x_device.data(), filters_device.data(), y.data(), dy.data(), dx.data(),
                             dfilters.data(), shape.has_bias ? dbias.data() : nullptr)
                  .ok());
  std::vector<double> expected_dx(x.size()), expected_dfilters(filter_count), expected_dbias(shape.out);
  for (int64_t i = 0; i < outputs; ++i) {
    if (shape.relu && !(y_host[i] > 0)) masked[i] = 0;
    expected_dbias[i % shape.out] += masked[i];
  }
  ForEachProduct(shape, [&](int64_t from, int64_t filter, int64_t to) {
    expected_dx[from] += double{filters[filter]} * masked[to];
    expected_dfilters[filter] += double{x[from]} * masked[to];
  });
  EXPECT_EQ(dy.Host(), masked);
  if (shape.has_bias) {
    EXPECT_LE(RelativeError(dbias.Host(), expected_dbias), Arithmetic::SumTolerance(pixels));
  }
  EXPECT_LE(RelativeError(dfilters.Host(), expected_dfilters), arithmetic_.StoredProductTolerance(pixels));
  EXPECT_LE(RelativeError(dx.Host(), expected_dx),
            arithmetic_.StoredProductTolerance(filter_count / (shape.in.channels / shape.groups)));

  // Backward has left the masked gradient in `dy`. Run on this gradient, the parts of Backward must give the
  // same bits as Backward.
  auto data = PoisonedActivations(x.size());
  auto filter_part = Poisoned(filter_count), bias_part = Poisoned(shape.out);
  ASSERT_TRUE(convolution->DataGradient(*stream_, filters_device.data(), dy.data(), data.data()).ok());
  ASSERT_TRUE(convolution
                  ->FilterGradient(*stream_, x_device.data(), dy.data(), filter_part.data(),
                                   shape.has_bias ? bias_part.data() : nullptr)
                  .ok());
  EXPECT_EQ(data.Host(), dx.Host());
  EXPECT_EQ(filter_part.Host(), dfilters.Host());
  if (shape.has_bias) {
    EXPECT_EQ(bias_part.Host(), dbias.Host());
  }
}

inline void ImageConformance::CheckConvolutionInAllForms(ConvolutionShape shape) {
  for (const auto& [relu, has_bias] : {std::pair(false, true), {true, true}, {true, false}, {false, false}}) {
    shape.relu = relu, shape.has_bias = has_bias;
    SCOPED_TRACE(::testing::Message()
                 << shape.in.height << " x " << shape.in.width << " x " << shape.in.channels << " to "
                 << shape.out << ", groups " << shape.groups << ", relu " << relu << ", bias " << has_bias);
    CheckConvolution(shape);
  }
}

inline void ImageConformance::CheckConvolutionRerun(const ConvolutionShape& shape) {
  const int64_t inputs = shape.rows * shape.in.elements(), outputs = shape.rows * shape.output().elements();
  const int64_t filter_count = shape.filters();
  auto convolution = device_->Create(shape).value();
  std::cout << shape.rows << " images, " << shape.in.channels << " to " << shape.out
            << " channels: " << convolution->Describe() << "\n";
  auto x = Activations(RandomFloats(inputs, 1));
  auto filters = Floats(RandomFloats(filter_count, 2)), bias = Floats(RandomFloats(shape.out, 3));
  const auto gradient = RandomFloats(outputs, 4);
  std::vector<std::vector<float>> results[2];
  for (auto& result : results) {
    auto y = PoisonedActivations(outputs), dy = Activations(gradient), dx = PoisonedActivations(inputs);
    auto dfilters = Poisoned(filter_count), dbias = Poisoned(shape.out);
    ASSERT_TRUE(convolution->Forward(*stream_, x.data(), filters.data(), bias.data(), y.data()).ok());
    ASSERT_TRUE(convolution
                    ->Backward(*stream_, x.data(), filters.data(), y.data(), dy.data(), dx.data(),
                               dfilters.data(), dbias.data())
                    .ok());
    result = {y.Host(), dx.Host(), dfilters.Host(), dbias.Host()};
  }
  EXPECT_TRUE(results[0] == results[1]) << shape.rows << " images: " << convolution->Describe();
}

inline void ImageConformance::CheckMaxPooling(const MaxPoolingShape& shape) {
  const auto x = RandomActivations(shape.rows * shape.in.elements(), 1);
  const std::vector<int64_t> maxima = ReferenceMaxima(shape, x);
  const auto dy = RandomActivations(maxima.size(), 2);
  auto pooling = device_->Create(shape).value();
  auto x_device = Activations(x), dy_device = Activations(dy), y = PoisonedActivations(maxima.size()),
       dx = PoisonedActivations(x.size());
  ASSERT_TRUE(pooling->Forward(*stream_, x_device.data(), y.data()).ok());
  ASSERT_TRUE(pooling->Backward(*stream_, x_device.data(), y.data(), dy_device.data(), dx.data()).ok());
  std::vector<float> expected_y;
  std::vector<double> expected_dx(x.size());
  for (size_t i = 0; i < maxima.size(); ++i) {
    expected_y.push_back(x[maxima[i]]);
    expected_dx[maxima[i]] += dy[i];
  }
  EXPECT_EQ(y.Host(), expected_y);
  EXPECT_LE(RelativeError(dx.Host(), expected_dx), arithmetic_.StoredTolerance(1e-6));
}

inline void ImageConformance::CheckAveragePooling(const AveragePoolingShape& shape) {
  const ImageShape out = shape.output();
  const int64_t window = shape.window.height.size * shape.window.width.size;
  const auto x = RandomActivations(shape.rows * shape.in.elements(), 1),
             dy = RandomActivations(shape.rows * out.elements(), 2);
  auto pooling = device_->Create(shape).value();
  auto x_device = Activations(x), dy_device = Activations(dy), y = PoisonedActivations(dy.size()),
       dx = PoisonedActivations(x.size());
  ASSERT_TRUE(pooling->Forward(*stream_, x_device.data(), y.data()).ok());
  ASSERT_TRUE(pooling->Backward(*stream_, dy_device.data(), dx.data()).ok());
  std::vector<double> pixels(out.height * out.width), expected_y(dy.size()), expected_dx(x.size());
  ForEachTap(shape.in, out, shape.window,
             [&](Pixel at, Pixel, Pixel) { pixels[at.y * out.width + at.x] += 1; });
  for (int64_t row = 0; row < shape.rows; ++row) {
    ForEachTap(shape.in, out, shape.window, [&](Pixel at, Pixel, Pixel from) {
      const double divisor = shape.count_padding ? window : pixels[at.y * out.width + at.x];
      for (int64_t c = 0; c < out.channels; ++c) {
        expected_y[At(out, row, at) + c] += x[At(shape.in, row, from) + c] / divisor;
        expected_dx[At(shape.in, row, from) + c] += dy[At(out, row, at) + c] / divisor;
      }
    });
  }
  const double tolerance = arithmetic_.StoredTolerance(Arithmetic::SumTolerance(window));
  EXPECT_LE(RelativeError(y.Host(), expected_y), tolerance);
  EXPECT_LE(RelativeError(dx.Host(), expected_dx), tolerance);
}

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_DEVICE_IMAGE_CONFORMANCE_FIXTURE_H_
