// Conformance suite for images; device_conformance.h says how to instantiate a suite.
#ifndef TETHYS_TESTS_RUNTIME_DEVICE_IMAGE_CONFORMANCE_H_
#define TETHYS_TESTS_RUNTIME_DEVICE_IMAGE_CONFORMANCE_H_

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/runtime/device/image_conformance_fixture.h"
#include "tests/runtime/device/image_shapes.h"

namespace tethys {

TEST_P(ImageConformance, ConvolutionsOfChosenShapesAgreeWithDoublePrecision) {
  for (const ConvolutionShape& shape : ConvolutionShapes()) CheckConvolutionInAllForms(shape);
}

TEST_P(ImageConformance, ConvolutionsOfRandomShapesAgreeWithDoublePrecision) {
  for (uint64_t key = 0; key < 20; ++key) CheckConvolutionInAllForms(RandomConvolutionShape(key));
}

// The GPU copies the pixels under each window into memory; for this shape all windows would need 165 MB at
// once.
TEST_P(ImageConformance, ConvolutionOfManyWindowsAgreesWithDoublePrecision) {
  const ConvolutionShape shape = {
      .rows = 70, .in = {32, 32, 64}, .out = 1, .window = SquareWindow(3, 1, 1, 1), .has_bias = false};
  if (GetParam().most_rows < shape.rows) GTEST_SKIP() << "this device is slow";
  CheckConvolution(shape);
}

TEST_P(ImageConformance, ConvolutionCanSkipItsInputGradient) {
  const ConvolutionShape shape = ConvolutionShapes()[0];
  auto convolution = device_->Create(shape).value();
  auto x = Activations(RandomFloats(7 * 28 * 28, 1)), y = Activations(RandomFloats(7 * 28 * 28 * 6, 3)),
       dy = Activations(RandomFloats(7 * 28 * 28 * 6, 4));
  auto filters = Floats(RandomFloats(6 * 25, 2)), dfilters = Poisoned(6 * 25), dbias = Poisoned(6);
  ASSERT_TRUE(convolution
                  ->Backward(*stream_, x.data(), filters.data(), y.data(), dy.data(), nullptr,
                             dfilters.data(), dbias.data())
                  .ok());
  for (const float value : dfilters.Host()) EXPECT_TRUE(std::isfinite(value));
}

TEST_P(ImageConformance, ConvolutionReluKeepsNaN) {
  auto convolution =
      device_
          ->Create(ConvolutionShape{
              .rows = 1, .in = {2, 2, 1}, .out = 20, .window = SquareWindow(1, 1, 0, 0), .relu = true})
          .value();
  auto x = Activations(std::vector<float>(4, kPoison)), y = Activations(std::vector<float>(80, 0));
  auto filters = Floats(std::vector<float>(20, 1)), bias = Floats(std::vector<float>(20, 0));
  ASSERT_TRUE(convolution->Forward(*stream_, x.data(), filters.data(), bias.data(), y.data()).ok());
  for (const float value : y.Host()) EXPECT_TRUE(std::isnan(value));
}

// A library may choose another algorithm for each batch size, so LeNet's layers run with three batch sizes.
TEST_P(ImageConformance, ConvolutionRerunIsBitEqual) {
  for (const int64_t rows : {int64_t{7}, int64_t{128}, int64_t{1024}}) {
    if (rows > GetParam().most_rows) continue;
    for (const size_t layer : {0, 1}) {
      ConvolutionShape shape = ConvolutionShapes()[layer];
      shape.rows = rows;
      CheckConvolutionRerun(shape);
    }
  }
}

TEST_P(ImageConformance, MaxPoolingAgreesWithItsReferenceInAllShapes) {
  for (const MaxPoolingShape& shape : MaxPoolingShapes()) {
    SCOPED_TRACE(::testing::Message()
                 << shape.in.height << " x " << shape.in.width << " x " << shape.in.channels);
    CheckMaxPooling(shape);
  }
}

TEST_P(ImageConformance, MaxPoolingGivesTheGradientToOneOfSeveralEqualLargestPixels) {
  auto pooling =
      device_->Create(MaxPoolingShape{.rows = 1, .in = {4, 4, 3}, .window = SquareWindow(2, 2, 0, 0)})
          .value();
  auto x = Activations(std::vector<float>(48, 1)), y = PoisonedActivations(12), dx = PoisonedActivations(48),
       dy = Activations(std::vector<float>(12, 2));
  ASSERT_TRUE(pooling->Forward(*stream_, x.data(), y.data()).ok());
  ASSERT_TRUE(pooling->Backward(*stream_, x.data(), y.data(), dy.data(), dx.data()).ok());
  const std::vector<float> gradients = dx.Host();
  EXPECT_EQ(std::count(gradients.begin(), gradients.end(), 2.0f), 12);
  EXPECT_EQ(std::count(gradients.begin(), gradients.end(), 0.0f), 36);
}

TEST_P(ImageConformance, PaddingIsNeverTheMaximumOfAPoolingWindow) {
  auto pooling =
      device_->Create(MaxPoolingShape{.rows = 1, .in = {3, 3, 1}, .window = SquareWindow(2, 2, 1, 0)})
          .value();
  auto x = Activations({-1, -2, -3, -4, -5, -6, -7, -8, -9}), y = PoisonedActivations(4);
  ASSERT_TRUE(pooling->Forward(*stream_, x.data(), y.data()).ok());
  EXPECT_EQ(y.Host(), (std::vector<float>{-1, -2, -4, -5}));
}

TEST_P(ImageConformance, AveragePoolingAgreesWithDoublePrecisionInAllShapes) {
  for (const MaxPoolingShape& shape : MaxPoolingShapes()) {
    for (const bool count_padding : {false, true}) {
      SCOPED_TRACE(::testing::Message()
                   << shape.in.height << " x " << shape.in.width << " x " << shape.in.channels);
      CheckAveragePooling({shape.rows, shape.in, shape.window, count_padding});
    }
  }
  const Window whole = {.height = {.size = 7}, .width = {.size = 5}};
  CheckAveragePooling({.rows = 3, .in = {7, 5, 33}, .window = whole});
}

TEST_P(ImageConformance, InvalidImageShapesAreRefused) {
  const ImageShape image = {4, 4, 1};
  for (const Window& window : {SquareWindow(5, 1, 0, 0), SquareWindow(0, 1, 0, 0), SquareWindow(2, 0, 0, 0),
                               SquareWindow(2, 1, 2, 0), SquareWindow(2, 1, 0, -1)}) {
    EXPECT_FALSE(device_->Create(ConvolutionShape{.rows = 1, .in = image, .out = 1, .window = window}).ok());
    EXPECT_FALSE(device_->Create(MaxPoolingShape{.rows = 1, .in = image, .window = window}).ok());
    EXPECT_FALSE(device_->Create(AveragePoolingShape{.rows = 1, .in = image, .window = window}).ok());
  }
  const Window window = SquareWindow(2, 1, 0, 0);
  EXPECT_FALSE(device_->Create(ConvolutionShape{.rows = 0, .in = image, .out = 1, .window = window}).ok());
  EXPECT_FALSE(device_->Create(ConvolutionShape{.rows = 1, .in = image, .out = 0, .window = window}).ok());
  EXPECT_FALSE(device_->Create(MaxPoolingShape{.rows = 1, .in = {4, 4, 0}, .window = window}).ok());
  for (const int64_t groups : {0, 3, 4}) {
    EXPECT_FALSE(device_
                     ->Create(ConvolutionShape{
                         .rows = 1, .in = {4, 4, 6}, .out = 4, .window = window, .groups = groups})
                     .ok())
        << groups;
  }
  const Window dilated = DilatedWindow(2, 2, 0);
  EXPECT_FALSE(device_->Create(MaxPoolingShape{.rows = 1, .in = image, .window = dilated}).ok());
  EXPECT_FALSE(device_->Create(AveragePoolingShape{.rows = 1, .in = image, .window = dilated}).ok());
  EXPECT_FALSE(
      device_->Create(ConvolutionShape{.rows = 1, .in = image, .out = 1, .window = DilatedWindow(3, 2, 0)})
          .ok());
}

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_DEVICE_IMAGE_CONFORMANCE_H_
