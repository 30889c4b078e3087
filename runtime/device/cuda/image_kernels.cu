// Max and average pooling over [rows, height, width, channels], with one thread per written element.
#include "runtime/device/cuda/elements.h"
#include "runtime/device/cuda/grid.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/launch.h"

namespace tethys::cuda {
namespace {

// The rows or columns of a window that are within the image.
struct Extent {
  int64_t begin, end;
};
__device__ Extent WindowExtent(int64_t position, int64_t size, int64_t stride, int64_t before, int64_t in) {
  const int64_t begin = position * stride - before;
  const int64_t end = begin + size;
  return {begin < 0 ? 0 : begin, end < in ? end : in};
}

// Window positions that cover element `at`.
__device__ Extent CoveringWindows(int64_t at, int64_t size, int64_t stride, int64_t before, int64_t out) {
  const int64_t shifted = at + before;  // position * stride <= shifted < position * stride + size
  const int64_t first = shifted < size ? 0 : (shifted - size) / stride + 1;
  const int64_t end = shifted / stride + 1;
  return {first, end < out ? end : out};
}

__device__ int64_t ElementAt(int64_t row, int64_t h, int64_t w, int64_t c, int64_t height, int64_t width,
                             int64_t channels) {
  return ((row * height + h) * width + w) * channels + c;
}

struct Element {
  int64_t row, h, w, c;
};
__device__ Element ElementOf(int64_t index, int64_t height, int64_t width, int64_t channels) {
  const int64_t c = index % channels, w = index / channels % width;
  const int64_t line = index / channels / width;
  return {line / height, line % height, w, c};
}

template <typename T>
__global__ void ForwardKernel(PoolingArguments a, const T* x, T* y) {
  const int64_t count = a.rows * a.out_height * a.out_width * a.channels;
  for (int64_t i = FirstIndex(); i < count; i += GridSize()) {
    const Element out = ElementOf(i, a.out_height, a.out_width, a.channels);
    const Extent h = WindowExtent(out.h, a.size_h, a.stride_h, a.before_h, a.height);
    const Extent w = WindowExtent(out.w, a.size_w, a.stride_w, a.before_w, a.width);
    float largest = -kInfinity;
    for (int64_t at_h = h.begin; at_h < h.end; ++at_h) {
      for (int64_t at_w = w.begin; at_w < w.end; ++at_w) {
        const float value = Widen(x[ElementAt(out.row, at_h, at_w, out.c, a.height, a.width, a.channels)]);
        if (value > largest || isnan(value)) largest = value;  // NaN stays.
      }
    }
    y[i] = Round<T>(largest);
  }
}

// True if `in` is the window's first element, in row-major order, that equals `largest`, the window's
// maximum.
template <typename T>
__device__ bool IsFirstLargest(const PoolingArguments& a, const T* x, float largest, const Element& in,
                               const Extent& h, const Extent& w) {
  for (int64_t at_h = h.begin; at_h <= in.h; ++at_h) {
    for (int64_t at_w = w.begin; at_w < w.end; ++at_w) {
      if (Widen(x[ElementAt(in.row, at_h, at_w, in.c, a.height, a.width, a.channels)]) == largest) {
        return at_h == in.h && at_w == in.w;
      }
      if (at_h == in.h && at_w == in.w) return false;
    }
  }
  return false;
}

// One thread sums the gradient of an element of x over the windows that cover it, in a fixed order. So no
// atomic additions are needed.
template <typename T>
__global__ void BackwardKernel(PoolingArguments a, const T* x, const T* y, const T* dy, T* dx) {
  const int64_t count = a.rows * a.height * a.width * a.channels;
  for (int64_t i = FirstIndex(); i < count; i += GridSize()) {
    const Element in = ElementOf(i, a.height, a.width, a.channels);
    const Extent windows_h = CoveringWindows(in.h, a.size_h, a.stride_h, a.before_h, a.out_height);
    const Extent windows_w = CoveringWindows(in.w, a.size_w, a.stride_w, a.before_w, a.out_width);
    float sum = 0;
    for (int64_t out_h = windows_h.begin; out_h < windows_h.end; ++out_h) {
      for (int64_t out_w = windows_w.begin; out_w < windows_w.end; ++out_w) {
        const int64_t out = ElementAt(in.row, out_h, out_w, in.c, a.out_height, a.out_width, a.channels);
        const float largest = Widen(y[out]);
        if (Widen(x[i]) != largest) continue;
        const Extent h = WindowExtent(out_h, a.size_h, a.stride_h, a.before_h, a.height);
        const Extent w = WindowExtent(out_w, a.size_w, a.stride_w, a.before_w, a.width);
        if (IsFirstLargest(a, x, largest, in, h, w)) sum += Widen(dy[out]);
      }
    }
    dx[i] = Round<T>(sum);
  }
}

// The factor of a window's mean.
__device__ float MeanFactor(const PoolingArguments& a, bool count_padding, const Extent& h, const Extent& w) {
  const int64_t elements = count_padding ? a.size_h * a.size_w : (h.end - h.begin) * (w.end - w.begin);
  return 1.0f / static_cast<float>(elements);
}

template <typename T>
__global__ void AverageForwardKernel(PoolingArguments a, bool count_padding, const T* x, T* y) {
  const int64_t count = a.rows * a.out_height * a.out_width * a.channels;
  for (int64_t i = FirstIndex(); i < count; i += GridSize()) {
    const Element out = ElementOf(i, a.out_height, a.out_width, a.channels);
    const Extent h = WindowExtent(out.h, a.size_h, a.stride_h, a.before_h, a.height);
    const Extent w = WindowExtent(out.w, a.size_w, a.stride_w, a.before_w, a.width);
    const float factor = MeanFactor(a, count_padding, h, w);
    float sum = 0;
    for (int64_t at_h = h.begin; at_h < h.end; ++at_h) {
      for (int64_t at_w = w.begin; at_w < w.end; ++at_w) {
        sum += factor * Widen(x[ElementAt(out.row, at_h, at_w, out.c, a.height, a.width, a.channels)]);
      }
    }
    y[i] = Round<T>(sum);
  }
}

// Like BackwardKernel.
template <typename T>
__global__ void AverageBackwardKernel(PoolingArguments a, bool count_padding, const T* dy, T* dx) {
  const int64_t count = a.rows * a.height * a.width * a.channels;
  for (int64_t i = FirstIndex(); i < count; i += GridSize()) {
    const Element in = ElementOf(i, a.height, a.width, a.channels);
    const Extent windows_h = CoveringWindows(in.h, a.size_h, a.stride_h, a.before_h, a.out_height);
    const Extent windows_w = CoveringWindows(in.w, a.size_w, a.stride_w, a.before_w, a.out_width);
    float sum = 0;
    for (int64_t out_h = windows_h.begin; out_h < windows_h.end; ++out_h) {
      for (int64_t out_w = windows_w.begin; out_w < windows_w.end; ++out_w) {
        const Extent h = WindowExtent(out_h, a.size_h, a.stride_h, a.before_h, a.height);
        const Extent w = WindowExtent(out_w, a.size_w, a.stride_w, a.before_w, a.width);
        const int64_t out = ElementAt(in.row, out_h, out_w, in.c, a.out_height, a.out_width, a.channels);
        sum += MeanFactor(a, count_padding, h, w) * Widen(dy[out]);
      }
    }
    dx[i] = Round<T>(sum);
  }
}

}  // namespace

cudaError_t AveragePoolingForward(cudaStream_t stream, ElementType type, const PoolingArguments& arguments,
                                  bool count_padding, const void* x, void* y) {
  const PoolingArguments& a = arguments;
  const unsigned blocks = BlocksFor(a.rows * a.out_height * a.out_width * a.channels);
  return ForType(type, [&](auto element) {
    using T = decltype(element);
    return Launch(AverageForwardKernel<T>, blocks, kThreads, stream, a, count_padding,
                  static_cast<const T*>(x), static_cast<T*>(y));
  });
}

cudaError_t AveragePoolingBackward(cudaStream_t stream, ElementType type, const PoolingArguments& arguments,
                                   bool count_padding, const void* dy, void* dx) {
  const PoolingArguments& a = arguments;
  const unsigned blocks = BlocksFor(a.rows * a.height * a.width * a.channels);
  return ForType(type, [&](auto element) {
    using T = decltype(element);
    return Launch(AverageBackwardKernel<T>, blocks, kThreads, stream, a, count_padding,
                  static_cast<const T*>(dy), static_cast<T*>(dx));
  });
}

cudaError_t MaxPoolingForward(cudaStream_t stream, ElementType type, const PoolingArguments& arguments,
                              const void* x, void* y) {
  const PoolingArguments& a = arguments;
  const unsigned blocks = BlocksFor(a.rows * a.out_height * a.out_width * a.channels);
  return ForType(type, [&](auto element) {
    using T = decltype(element);
    return Launch(ForwardKernel<T>, blocks, kThreads, stream, a, static_cast<const T*>(x),
                  static_cast<T*>(y));
  });
}

cudaError_t MaxPoolingBackward(cudaStream_t stream, ElementType type, const PoolingArguments& arguments,
                               const void* x, const void* y, const void* dy, void* dx) {
  const PoolingArguments& a = arguments;
  const unsigned blocks = BlocksFor(a.rows * a.height * a.width * a.channels);
  return ForType(type, [&](auto element) {
    using T = decltype(element);
    return Launch(BackwardKernel<T>, blocks, kThreads, stream, a, static_cast<const T*>(x),
                  static_cast<const T*>(y), static_cast<const T*>(dy), static_cast<T*>(dx));
  });
}

}  // namespace tethys::cuda
