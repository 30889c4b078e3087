// What every Device must do with images; see device_conformance.h, which says how to instantiate a suite.
#ifndef TETHYS_TESTS_RUNTIME_DEVICE_IMAGE_CONFORMANCE_H_
#define TETHYS_TESTS_RUNTIME_DEVICE_IMAGE_CONFORMANCE_H_

#include <algorithm>
#include <vector>

#include "tests/runtime/device/device_conformance.h"
#include "tests/runtime/device/image_shapes.h"
#include "tests/testing/reference_images.h"

namespace tethys {

class ImageConformance : public DeviceConformance {
 protected:
  void CheckConvolution(const ConvolutionShape& shape);
  void CheckMaxPooling(const MaxPoolingShape& shape);
};

inline void ImageConformance::CheckConvolution(const ConvolutionShape& shape) {
  const int64_t outputs = shape.rows * shape.output().elements();
  const int64_t filter_count =
      shape.out * shape.window.height.size * shape.window.width.size * shape.in.channels;
  const int64_t window = filter_count / shape.out, pixels = outputs / shape.out;
  const auto x = RandomFactors(shape.rows * shape.in.elements(), 1), filters = RandomFactors(filter_count, 2),
             bias = RandomFloats(shape.out, 3);
  std::vector<float> masked = RandomFactors(outputs, 4);
  auto convolution = device_->CreateConvolution(shape).value();
  auto x_device = Floats(x), filters_device = Floats(filters), bias_device = Floats(bias),
       y = Poisoned(outputs);
  ASSERT_TRUE(
      convolution->Forward(*stream_, x_device.data(), filters_device.data(), bias_device.data(), y.data())
          .ok());
  std::vector<double> expected_y(outputs);
  for (int64_t i = 0; i < outputs; ++i) expected_y[i] = bias[i % shape.out];
  ForEachProduct(shape, [&](int64_t from, int64_t filter, int64_t to) {
    expected_y[to] += double{x[from]} * filters[filter];
  });
  for (double& value : expected_y) value = shape.relu ? std::max(value, 0.0) : value;
  const std::vector<float> y_host = y.Host();
  EXPECT_LE(RelativeError(y_host, expected_y), arithmetic_.ConvolutionTolerance(window));

  auto dy = Floats(masked), dx = Poisoned(x.size()), dfilters = Poisoned(filter_count),
       dbias = Poisoned(shape.out);
  ASSERT_TRUE(convolution
                  ->Backward(*stream_, x_device.data(), filters_device.data(), y.data(), dy.data(), dx.data(),
                             dfilters.data(), dbias.data())
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
  EXPECT_LE(RelativeError(dbias.Host(), expected_dbias), Arithmetic::SumTolerance(pixels));
  EXPECT_LE(RelativeError(dfilters.Host(), expected_dfilters), arithmetic_.ConvolutionTolerance(pixels));
  EXPECT_LE(RelativeError(dx.Host(), expected_dx),
            arithmetic_.ConvolutionTolerance(filter_count / shape.in.channels));
}

inline void ImageConformance::CheckMaxPooling(const MaxPoolingShape& shape) {
  const auto x = RandomFloats(shape.rows * shape.in.elements(), 1);
  const std::vector<int64_t> maxima = ReferenceMaxima(shape, x);
  const auto dy = RandomFloats(maxima.size(), 2);
  auto pooling = device_->CreateMaxPooling(shape).value();
  auto x_device = Floats(x), dy_device = Floats(dy), y = Poisoned(maxima.size()), dx = Poisoned(x.size());
  ASSERT_TRUE(pooling->Forward(*stream_, x_device.data(), y.data()).ok());
  ASSERT_TRUE(pooling->Backward(*stream_, x_device.data(), y.data(), dy_device.data(), dx.data()).ok());
  std::vector<float> expected_y;
  std::vector<double> expected_dx(x.size());
  for (size_t i = 0; i < maxima.size(); ++i) {
    expected_y.push_back(x[maxima[i]]);
    expected_dx[maxima[i]] += dy[i];
  }
  EXPECT_EQ(y.Host(), expected_y);
  EXPECT_LE(RelativeError(dx.Host(), expected_dx), 1e-6);
}

TEST_P(ImageConformance, ConvolutionsAgreeWithDoublePrecisionInAllShapes) {
  std::vector<ConvolutionShape> shapes = ConvolutionShapes();
  for (uint64_t key = 0; key < 20; ++key) shapes.push_back(RandomConvolutionShape(key));
  for (ConvolutionShape shape : shapes) {
    for (const bool relu : {false, true}) {
      shape.relu = relu;
      SCOPED_TRACE(::testing::Message() << shape.in.height << " x " << shape.in.width << " x "
                                        << shape.in.channels << " to " << shape.out << " relu " << relu);
      CheckConvolution(shape);
    }
  }
}

TEST_P(ImageConformance, AConvolutionsInputGradientMayBeLeftOut) {
  const ConvolutionShape shape = ConvolutionShapes()[0];
  auto convolution = device_->CreateConvolution(shape).value();
  auto x = Floats(RandomFloats(7 * 28 * 28, 1)), filters = Floats(RandomFloats(6 * 25, 2)),
       y = Floats(RandomFloats(7 * 28 * 28 * 6, 3)), dy = Floats(RandomFloats(7 * 28 * 28 * 6, 4)),
       dfilters = Poisoned(6 * 25), dbias = Poisoned(6);
  ASSERT_TRUE(convolution
                  ->Backward(*stream_, x.data(), filters.data(), y.data(), dy.data(), nullptr,
                             dfilters.data(), dbias.data())
                  .ok());
  for (const float value : dfilters.Host()) EXPECT_TRUE(std::isfinite(value));
}

TEST_P(ImageConformance, AConvolutionsReluPassesNaNOn) {
  auto convolution =
      device_
          ->CreateConvolution(
              {.rows = 1, .in = {2, 2, 1}, .out = 20, .window = SquareWindow(1, 1, 0, 0), .relu = true})
          .value();
  auto x = Floats(std::vector<float>(4, kPoison)), filters = Floats(std::vector<float>(20, 1)),
       bias = Floats(std::vector<float>(20, 0)), y = Floats(std::vector<float>(80, 0));
  ASSERT_TRUE(convolution->Forward(*stream_, x.data(), filters.data(), bias.data(), y.data()).ok());
  for (const float value : y.Host()) EXPECT_TRUE(std::isnan(value));
}

TEST_P(ImageConformance, AConvolutionsRerunIsBitEqual) {
  const ConvolutionShape shape = ConvolutionShapes()[1];
  auto convolution = device_->CreateConvolution(shape).value();
  auto x = Floats(RandomFloats(7 * 14 * 14 * 6, 1)), filters = Floats(RandomFloats(16 * 150, 2)),
       y = Floats(RandomFloats(7 * 1600, 3)), dy = Floats(RandomFloats(7 * 1600, 4));
  std::vector<std::vector<float>> results;
  for (int run = 0; run < 2; ++run) {
    auto dx = Poisoned(7 * 14 * 14 * 6), dfilters = Poisoned(16 * 150), dbias = Poisoned(16);
    ASSERT_TRUE(convolution
                    ->Backward(*stream_, x.data(), filters.data(), y.data(), dy.data(), dx.data(),
                               dfilters.data(), dbias.data())
                    .ok());
    results.push_back(dfilters.Host());
    results.push_back(dx.Host());
  }
  EXPECT_EQ(results[0], results[2]);
  EXPECT_EQ(results[1], results[3]);
}

TEST_P(ImageConformance, MaxPoolingAgreesWithItsReferenceInAllShapes) {
  for (const MaxPoolingShape& shape : MaxPoolingShapes()) {
    SCOPED_TRACE(::testing::Message()
                 << shape.in.height << " x " << shape.in.width << " x " << shape.in.channels);
    CheckMaxPooling(shape);
  }
}

TEST_P(ImageConformance, OneOfEqualPixelsGetsTheGradient) {
  auto pooling =
      device_->CreateMaxPooling({.rows = 1, .in = {4, 4, 3}, .window = SquareWindow(2, 2, 0, 0)}).value();
  auto x = Floats(std::vector<float>(48, 1)), y = Poisoned(12), dx = Poisoned(48),
       dy = Floats(std::vector<float>(12, 2));
  ASSERT_TRUE(pooling->Forward(*stream_, x.data(), y.data()).ok());
  ASSERT_TRUE(pooling->Backward(*stream_, x.data(), y.data(), dy.data(), dx.data()).ok());
  const std::vector<float> gradients = dx.Host();
  EXPECT_EQ(std::count(gradients.begin(), gradients.end(), 2.0f), 12);
  EXPECT_EQ(std::count(gradients.begin(), gradients.end(), 0.0f), 36);
}

TEST_P(ImageConformance, PaddingIsNeverTheLargest) {
  auto pooling =
      device_->CreateMaxPooling({.rows = 1, .in = {3, 3, 1}, .window = SquareWindow(2, 2, 1, 0)}).value();
  auto x = Floats({-1, -2, -3, -4, -5, -6, -7, -8, -9}), y = Poisoned(4);
  ASSERT_TRUE(pooling->Forward(*stream_, x.data(), y.data()).ok());
  EXPECT_EQ(y.Host(), (std::vector<float>{-1, -2, -4, -5}));
}

TEST_P(ImageConformance, ImpossibleImagesAreRefused) {
  const ImageShape image = {4, 4, 1};
  for (const Window& window : {SquareWindow(5, 1, 0, 0), SquareWindow(0, 1, 0, 0), SquareWindow(2, 0, 0, 0),
                               SquareWindow(2, 1, 2, 0), SquareWindow(2, 1, 0, -1)}) {
    EXPECT_FALSE(device_->CreateConvolution({.rows = 1, .in = image, .out = 1, .window = window}).ok());
    EXPECT_FALSE(device_->CreateMaxPooling({.rows = 1, .in = image, .window = window}).ok());
  }
  const Window window = SquareWindow(2, 1, 0, 0);
  EXPECT_FALSE(device_->CreateConvolution({.rows = 0, .in = image, .out = 1, .window = window}).ok());
  EXPECT_FALSE(device_->CreateConvolution({.rows = 1, .in = image, .out = 0, .window = window}).ok());
  EXPECT_FALSE(device_->CreateMaxPooling({.rows = 1, .in = {4, 4, 0}, .window = window}).ok());
}

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_DEVICE_IMAGE_CONFORMANCE_H_
