// The windows of runtime/device/pooling_windows.h over images in packs of channels, for .cu files. A kernel
// has one thread per pack that it writes.
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_POOLING_WINDOWS_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_POOLING_WINDOWS_H_

#include <cstdint>

#include "runtime/device/pooling_windows.h"

namespace tethys::cuda {

// Along one axis: the range of windows that cover element `at` of the input.
__device__ inline Extent CoveringWindows(int64_t at, int64_t size, int64_t stride, int64_t before,
                                         int64_t out) {
  // A window covers the element if position * stride <= shifted < position * stride + size.
  const int64_t shifted = at + before;
  const int64_t first = shifted < size ? 0 : (shifted - size) / stride + 1;
  const int64_t end = shifted / stride + 1;
  return {first, end < out ? end : out};
}

// The sizes of images whose channels lie in packs.
struct PackedImages {
  int64_t height, width, packs;

  __device__ int64_t At(int64_t row, int64_t h, int64_t w, int64_t pack) const {
    return ((row * height + h) * width + w) * packs + pack;
  }
};
template <typename P>
__device__ PackedImages InputsOf(const PoolingWindows& a) {
  return {a.height, a.width, a.channels / P::kSize};
}
template <typename P>
__device__ PackedImages OutputsOf(const PoolingWindows& a) {
  return {a.out_height, a.out_width, a.channels / P::kSize};
}

struct Place {
  int64_t row, h, w, pack;
};
__device__ inline Place PlaceOf(int64_t index, const PackedImages& images) {
  const int64_t pixel = index / images.packs, line = pixel / images.width;
  return {line / images.height, line % images.height, pixel % images.width, index % images.packs};
}

// The number of packs in the outputs or inputs, if a pack has `size` channels. A kernel has one thread for
// each pack that it writes.
inline int64_t OutputPacks(const PoolingWindows& a, int size) {
  return a.rows * a.out_height * a.out_width * (a.channels / size);
}
inline int64_t InputPacks(const PoolingWindows& a, int size) {
  return a.rows * a.height * a.width * (a.channels / size);
}

}  // namespace tethys::cuda

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_POOLING_WINDOWS_H_
