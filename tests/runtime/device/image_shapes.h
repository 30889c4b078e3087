// Image shapes that are likely to expose errors: the cases of image_conformance.h and cudnn_engines_test.cc.
#ifndef TETHYS_TESTS_RUNTIME_DEVICE_IMAGE_SHAPES_H_
#define TETHYS_TESTS_RUNTIME_DEVICE_IMAGE_SHAPES_H_

#include <algorithm>
#include <vector>

#include "runtime/base/random.h"
#include "runtime/device/image_primitives.h"

namespace tethys {

inline Window SquareWindow(int64_t size, int64_t stride, int64_t before, int64_t after) {
  return {{size, stride, before, after}, {size, stride, before, after}};
}

inline Window DilatedWindow(int64_t size, int64_t dilation, int64_t padding) {
  const Window::Axis axis = {
      .size = size, .stride = 1, .before = padding, .after = padding, .dilation = dilation};
  return {axis, axis};
}

// The shapes cover:
// - LeNet's shapes, one channel, and more channels than a vector register has lanes
// - odd sizes, and strides that do not divide the image
// - one-pixel windows, also with strides that skip pixels (for few channels and for many)
// - padding on one side or by TensorFlow's rule, and different windows for height and width
// - groups, with one channel each (depthwise) and with several, and dilated windows
// - an image so large that the CPU computes its gradient as a convolution with filters turned by 180 degrees
// - more lines of pixels than the GPU adds up in parallel
inline std::vector<ConvolutionShape> ConvolutionShapes() {
  return {
      {.rows = 7, .in = {28, 28, 1}, .out = 6, .window = SquareWindow(5, 1, 2, 2)},
      {.rows = 7, .in = {14, 14, 6}, .out = 16, .window = SquareWindow(5, 1, 0, 0)},
      {.rows = 1, .in = {1, 1, 1}, .out = 1, .window = SquareWindow(1, 1, 0, 0)},
      {.rows = 3, .in = {7, 5, 3}, .out = 33, .window = SquareWindow(1, 1, 0, 0)},
      {.rows = 2, .in = {9, 9, 17}, .out = 5, .window = SquareWindow(3, 2, 1, 1)},
      {.rows = 2, .in = {8, 8, 2}, .out = 4, .window = SquareWindow(3, 2, 0, 1)},
      {.rows = 2, .in = {10, 7, 4}, .out = 16, .window = SquareWindow(4, 3, 0, 0)},
      {.rows = 2, .in = {6, 11, 3}, .out = 7, .window = {{3, 1, 2, 0}, {5, 2, 0, 4}}},
      {.rows = 5, .in = {12, 12, 32}, .out = 32, .window = SquareWindow(3, 1, 1, 1)},
      {.rows = 3, .in = {9, 8, 3}, .out = 16, .window = SquareWindow(1, 2, 0, 0)},
      {.rows = 3, .in = {9, 8, 4}, .out = 5, .window = {{1, 1, 0, 0}, {1, 3, 0, 0}}},
      {.rows = 4, .in = {14, 14, 64}, .out = 32, .window = SquareWindow(1, 2, 0, 0)},
      {.rows = 2, .in = {9, 9, 32}, .out = 32, .window = SquareWindow(3, 1, 1, 1), .groups = 32},
      {.rows = 2, .in = {9, 8, 20}, .out = 20, .window = SquareWindow(3, 2, 1, 1), .groups = 20},
      {.rows = 2, .in = {7, 7, 3}, .out = 6, .window = SquareWindow(3, 1, 0, 0), .groups = 3},
      {.rows = 2, .in = {8, 8, 32}, .out = 16, .window = SquareWindow(3, 1, 1, 1), .groups = 4},
      {.rows = 3, .in = {9, 8, 12}, .out = 6, .window = SquareWindow(1, 2, 0, 0), .groups = 2},
      {.rows = 2, .in = {13, 11, 8}, .out = 8, .window = DilatedWindow(3, 2, 2)},
      {.rows = 2, .in = {13, 11, 6}, .out = 5, .window = DilatedWindow(3, 3, 0)},
      {.rows = 1, .in = {28, 30, 65}, .out = 66, .window = {{3, 1, 2, 0}, {2, 1, 0, 1}}},
      {.rows = 7, .in = {149, 3, 2}, .out = 3, .window = SquareWindow(3, 1, 1, 1)},
  };
}

inline ConvolutionShape RandomConvolutionShape(uint64_t key) {
  RandomStream stream(2, RandomPurpose::kTest, key);
  const auto below = [&stream](int64_t bound) { return static_cast<int64_t>(stream.NextBelow(bound)); };
  const auto axis = [&below](int64_t in) {
    const int64_t size = 1 + below(std::min<int64_t>(in, 5));
    const int64_t stride = 1 + below(3), before = below(size), after = below(size);
    const bool room = 2 * (size - 1) < in + before + after;
    return Window::Axis{size, stride, before, after, room ? 1 + below(2) : 1};
  };
  const ImageShape in = {1 + below(12), 1 + below(12), 1 + below(20)};
  return {.rows = 1 + below(4), .in = in, .out = 1 + below(20), .window = {axis(in.height), axis(in.width)}};
}

inline std::vector<MaxPoolingShape> MaxPoolingShapes() {
  return {
      {.rows = 3, .in = {28, 28, 6}, .window = SquareWindow(2, 2, 0, 0)},
      {.rows = 3, .in = {10, 10, 16}, .window = SquareWindow(2, 2, 0, 0)},
      {.rows = 1, .in = {1, 1, 1}, .window = SquareWindow(1, 1, 0, 0)},
      {.rows = 2, .in = {7, 5, 1}, .window = SquareWindow(2, 2, 0, 1)},
      {.rows = 2, .in = {9, 9, 17}, .window = SquareWindow(3, 2, 1, 1)},
      {.rows = 2, .in = {9, 9, 24}, .window = SquareWindow(3, 2, 1, 1)},
      {.rows = 2, .in = {8, 11, 3}, .window = SquareWindow(3, 1, 1, 1)},
      {.rows = 2, .in = {11, 7, 4}, .window = SquareWindow(2, 3, 0, 0)},
      {.rows = 2, .in = {6, 9, 33}, .window = {{3, 3, 2, 0}, {2, 1, 0, 1}}},
  };
}

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_DEVICE_IMAGE_SHAPES_H_
