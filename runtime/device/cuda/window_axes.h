// One axis of a convolution's windows over images, for .cu files.
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_WINDOW_AXES_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_WINDOW_AXES_H_

#include "runtime/device/images.h"

namespace tethys::cuda {

struct WindowAxis {
  int in, out, size, stride, before, dilation;

  // The image position under element `tap` of window `at`; it may lie in the padding.
  __device__ int Under(int at, int tap) const { return at * stride - before + tap * dilation; }
  // The window whose element `tap` lies over position `at` of the image; -1 if there is none.
  __device__ int Over(int at, int tap) const {
    const int shifted = at + before - tap * dilation;
    if (shifted < 0) return -1;
    const int window = shifted / stride;
    return window * stride == shifted && window < out ? window : -1;
  }
};

inline WindowAxis WindowAxisOf(const Window::Axis& axis, int64_t in) {
  return {.in = static_cast<int>(in),
          .out = static_cast<int>(axis.Positions(in)),
          .size = static_cast<int>(axis.size),
          .stride = static_cast<int>(axis.stride),
          .before = static_cast<int>(axis.before),
          .dilation = static_cast<int>(axis.dilation)};
}

}  // namespace tethys::cuda

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_WINDOW_AXES_H_
