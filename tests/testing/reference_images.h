// Reference code for convolution and max pooling, sample by sample, written for clarity alone. Tests compare
// devices and plans with it. Shapes may have any number of rows; layouts are those of
// runtime/device/image_primitives.h.
#ifndef TETHYS_TESTS_TESTING_REFERENCE_IMAGES_H_
#define TETHYS_TESTS_TESTING_REFERENCE_IMAGES_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "runtime/device/image_primitives.h"

namespace tethys {

struct Pixel {
  int64_t y = 0;
  int64_t x = 0;
};
// The index of the pixel's channel 0 in the array.
inline int64_t At(const ImageShape& image, int64_t row, Pixel pixel) {
  return ((row * image.height + pixel.y) * image.width + pixel.x) * image.channels;
}

// Calls visit(out, tap, in) for every pixel of the output and every tap of its window that lies inside the
// image.
inline void ForEachTap(const ImageShape& in, const ImageShape& out, const Window& window,
                       absl::FunctionRef<void(Pixel out, Pixel tap, Pixel in)> visit) {
  for (int64_t i = 0; i < out.height * out.width; ++i) {
    const Pixel at = {i / out.width, i % out.width};
    for (int64_t j = 0; j < window.height.size * window.width.size; ++j) {
      const Pixel tap = {j / window.width.size, j % window.width.size};
      const Pixel from = {at.y * window.height.stride + tap.y * window.height.dilation - window.height.before,
                          at.x * window.width.stride + tap.x * window.width.dilation - window.width.before};
      if (from.y < 0 || from.y >= in.height || from.x < 0 || from.x >= in.width) continue;
      visit(at, tap, from);
    }
  }
}

// Calls visit(x, filter, y) for every multiplication of a convolution: the indices of the input element, the
// filter element and the output element in their arrays. This is a template, so that the compiler inlines
// `visit`, in which tests of devices spend most of their time.
template <typename Visit>
void ForEachProduct(const ConvolutionShape& shape, const Visit& visit) {
  const ImageShape out = shape.output();
  const int64_t channels = shape.in.channels / shape.groups;  // Channels of one filter.
  const ImageShape filter = {shape.window.height.size, shape.window.width.size, channels};
  for (int64_t row = 0; row < shape.rows; ++row) {
    ForEachTap(shape.in, out, shape.window, [&](Pixel at, Pixel tap, Pixel from) {
      const int64_t x = At(shape.in, row, from), y = At(out, row, at);
      for (int64_t o = 0; o < shape.out; ++o) {
        const int64_t first_x = x + o / (shape.out / shape.groups) * channels,
                      first_filter = At(filter, o, tap);
        for (int64_t c = 0; c < channels; ++c) visit(first_x + c, first_filter + c, y + o);
      }
    });
  }
}

// For every element of the output, the index in x of the maximum of its window; of equal maxima the first.
template <typename Number>
std::vector<int64_t> ReferenceMaxima(const MaxPoolingShape& shape, const std::vector<Number>& x) {
  const ImageShape out = shape.output();
  std::vector<int64_t> maxima(shape.rows * out.elements(), -1);
  for (int64_t row = 0; row < shape.rows; ++row) {
    ForEachTap(shape.in, out, shape.window, [&](Pixel at, Pixel, Pixel from) {
      for (int64_t c = 0; c < shape.in.channels; ++c) {
        int64_t& maximum = maxima[At(out, row, at) + c];
        const int64_t candidate = At(shape.in, row, from) + c;
        if (maximum < 0 || x[candidate] > x[maximum]) maximum = candidate;
      }
    });
  }
  return maxima;
}

}  // namespace tethys

#endif  // TETHYS_TESTS_TESTING_REFERENCE_IMAGES_H_
