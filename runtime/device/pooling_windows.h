// Windows of pooling over images as plain numbers, which the kernels of all back ends take.
#ifndef TETHYS_RUNTIME_DEVICE_POOLING_WINDOWS_H_
#define TETHYS_RUNTIME_DEVICE_POOLING_WINDOWS_H_

#include <cstdint>

#include "runtime/device/formula.h"

namespace tethys {

// Images are [rows, height, width, channels], and their windows [rows, out_height, out_width, channels]. A
// window is size_h x size_w pixels; the first one begins before_h pixels above the image and before_w to its
// left, and the next ones follow at distances of stride_h and stride_w.
struct PoolingWindows {
  int64_t rows, height, width, channels, out_height, out_width;
  int64_t size_h, size_w, stride_h, stride_w, before_h, before_w;
  bool count_padding;  // AveragePoolingShape::count_padding; false for max pooling, which does not use it.
};

// A range of rows or columns of an image, or a range of window positions along one of its axes.
struct Extent {
  int64_t begin, end;
};

namespace {

// `Shape` is the shape of a pooling primitive (image_primitives.h).
template <typename Shape>
PoolingWindows WindowsOf(const Shape& shape, bool count_padding = false) {
  const auto& h = shape.window.height;
  const auto& w = shape.window.width;
  const auto out = shape.output();
  return {.rows = shape.rows,
          .height = shape.in.height,
          .width = shape.in.width,
          .channels = shape.in.channels,
          .out_height = out.height,
          .out_width = out.width,
          .size_h = h.size,
          .size_w = w.size,
          .stride_h = h.stride,
          .stride_w = w.stride,
          .before_h = h.before,
          .before_w = w.before,
          .count_padding = count_padding};
}

// The rows or columns of a window that are within the image.
TETHYS_FORMULA Extent WindowExtent(int64_t position, int64_t size, int64_t stride, int64_t before,
                                   int64_t in) {
  const int64_t begin = position * stride - before;
  const int64_t end = begin + size;
  return {begin < 0 ? 0 : begin, end < in ? end : in};
}

}  // namespace
}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_POOLING_WINDOWS_H_
