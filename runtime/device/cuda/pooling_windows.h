// Windows of pooling over images in packs of channels, for .cu files. A kernel has one thread per pack that
// it writes.
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_POOLING_WINDOWS_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_POOLING_WINDOWS_H_

#include <cstdint>

#include "runtime/device/image_primitives.h"

namespace tethys::cuda {

// Images are [rows, height, width, channels].
struct PoolingArguments {
  int64_t rows, height, width, channels, out_height, out_width;
  int64_t size_h, size_w, stride_h, stride_w, before_h, before_w;
};

// `Shape` is the shape type of a pooling primitive.
template <typename Shape>
PoolingArguments ArgumentsOf(const Shape& shape) {
  const Window::Axis& h = shape.window.height;
  const Window::Axis& w = shape.window.width;
  const ImageShape out = shape.output();
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
          .before_w = w.before};
}

// The rows or columns of a window that are within the image.
struct Extent {
  int64_t begin, end;
};
__device__ inline Extent WindowExtent(int64_t position, int64_t size, int64_t stride, int64_t before,
                                      int64_t in) {
  const int64_t begin = position * stride - before;
  const int64_t end = begin + size;
  return {begin < 0 ? 0 : begin, end < in ? end : in};
}

// The window positions that cover element `at`.
__device__ inline Extent CoveringWindows(int64_t at, int64_t size, int64_t stride, int64_t before,
                                         int64_t out) {
  // A window covers the element if position * stride <= shifted < position * stride + size.
  const int64_t shifted = at + before;
  const int64_t first = shifted < size ? 0 : (shifted - size) / stride + 1;
  const int64_t end = shifted / stride + 1;
  return {first, end < out ? end : out};
}

// Images in packs of channels.
struct PackedImages {
  int64_t height, width, packs;

  __device__ int64_t At(int64_t row, int64_t h, int64_t w, int64_t pack) const {
    return ((row * height + h) * width + w) * packs + pack;
  }
};
template <typename P>
__device__ PackedImages InputsOf(const PoolingArguments& a) {
  return {a.height, a.width, a.channels / P::kSize};
}
template <typename P>
__device__ PackedImages OutputsOf(const PoolingArguments& a) {
  return {a.out_height, a.out_width, a.channels / P::kSize};
}

struct Place {
  int64_t row, h, w, pack;
};
__device__ inline Place PlaceOf(int64_t index, const PackedImages& images) {
  const int64_t pixel = index / images.packs, line = pixel / images.width;
  return {line / images.height, line % images.height, pixel % images.width, index % images.packs};
}

// The packs of the images that a kernel writes.
inline int64_t OutputPacks(const PoolingArguments& a, int size) {
  return a.rows * a.out_height * a.out_width * (a.channels / size);
}
inline int64_t InputPacks(const PoolingArguments& a, int size) {
  return a.rows * a.height * a.width * (a.channels / size);
}

}  // namespace tethys::cuda

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_POOLING_WINDOWS_H_
