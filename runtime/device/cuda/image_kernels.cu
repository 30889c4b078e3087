// Max and average pooling over [rows, height, width, channels], with one thread per written pack of channels.
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
__device__ Place PlaceOf(int64_t index, const PackedImages& images) {
  const int64_t pixel = index / images.packs, line = pixel / images.width;
  return {line / images.height, line % images.height, pixel % images.width, index % images.packs};
}

template <typename P>
__global__ void ForwardKernel(PoolingArguments a, int64_t packs, const P* x, P* y) {
  const PackedImages inputs = InputsOf<P>(a);
  for (int64_t i = FirstIndex(); i < packs; i += GridSize()) {
    const Place out = PlaceOf(i, OutputsOf<P>(a));
    const Extent h = WindowExtent(out.h, a.size_h, a.stride_h, a.before_h, a.height);
    const Extent w = WindowExtent(out.w, a.size_w, a.stride_w, a.before_w, a.width);
    P largest;
    for (int k = 0; k < P::kSize; ++k) largest.Set(k, -kInfinity);
    for (int64_t at_h = h.begin; at_h < h.end; ++at_h) {
      for (int64_t at_w = w.begin; at_w < w.end; ++at_w) {
        const P values = x[inputs.At(out.row, at_h, at_w, out.pack)];
        for (int k = 0; k < P::kSize; ++k) {  // NaN stays.
          if (values[k] > largest[k] || isnan(values[k])) largest.elements[k] = values.elements[k];
        }
      }
    }
    y[i] = largest;
  }
}

// Clears `first` where the window's element of `in` is not its first, in row-major order, that equals
// `largest`, the window's maximum.
template <typename P>
__device__ void KeepFirstLargest(const PackedImages& inputs, const P* x, const P& largest, const Place& in,
                                 const Extent& h, const Extent& w, bool* first) {
  for (int64_t at_h = h.begin; at_h <= in.h; ++at_h) {
    for (int64_t at_w = w.begin; at_w < w.end && (at_h < in.h || at_w < in.w); ++at_w) {
      const P values = x[inputs.At(in.row, at_h, at_w, in.pack)];
      for (int k = 0; k < P::kSize; ++k) first[k] &= values[k] != largest[k];
    }
  }
}

// One thread sums the gradients of a pack of x over the windows that cover it, in a fixed order. So no atomic
// additions are needed.
template <typename P>
__global__ void BackwardKernel(PoolingArguments a, int64_t packs, const P* x, const P* y, const P* dy,
                               P* dx) {
  const PackedImages inputs = InputsOf<P>(a), outputs = OutputsOf<P>(a);
  for (int64_t i = FirstIndex(); i < packs; i += GridSize()) {
    const Place in = PlaceOf(i, inputs);
    const Extent windows_h = CoveringWindows(in.h, a.size_h, a.stride_h, a.before_h, a.out_height);
    const Extent windows_w = CoveringWindows(in.w, a.size_w, a.stride_w, a.before_w, a.out_width);
    const P values = x[i];
    float sums[P::kSize] = {};
    for (int64_t out_h = windows_h.begin; out_h < windows_h.end; ++out_h) {
      for (int64_t out_w = windows_w.begin; out_w < windows_w.end; ++out_w) {
        const int64_t out = outputs.At(in.row, out_h, out_w, in.pack);
        const P largest = y[out];
        bool first[P::kSize], any = false;
        for (int k = 0; k < P::kSize; ++k) any |= first[k] = values[k] == largest[k];
        if (!any) continue;
        const Extent h = WindowExtent(out_h, a.size_h, a.stride_h, a.before_h, a.height);
        const Extent w = WindowExtent(out_w, a.size_w, a.stride_w, a.before_w, a.width);
        KeepFirstLargest(inputs, x, largest, in, h, w, first);
        const P gradients = dy[out];
        for (int k = 0; k < P::kSize; ++k) {
          if (first[k]) sums[k] += gradients[k];
        }
      }
    }
    P result;
    for (int k = 0; k < P::kSize; ++k) result.Set(k, sums[k]);
    dx[i] = result;
  }
}

// The factor of a window's mean.
__device__ float MeanFactor(const PoolingArguments& a, bool count_padding, const Extent& h, const Extent& w) {
  const int64_t elements = count_padding ? a.size_h * a.size_w : (h.end - h.begin) * (w.end - w.begin);
  return 1.0f / static_cast<float>(elements);
}

template <typename P>
__global__ void AverageForwardKernel(PoolingArguments a, bool count_padding, int64_t packs, const P* x,
                                     P* y) {
  const PackedImages inputs = InputsOf<P>(a);
  for (int64_t i = FirstIndex(); i < packs; i += GridSize()) {
    const Place out = PlaceOf(i, OutputsOf<P>(a));
    const Extent h = WindowExtent(out.h, a.size_h, a.stride_h, a.before_h, a.height);
    const Extent w = WindowExtent(out.w, a.size_w, a.stride_w, a.before_w, a.width);
    const float factor = MeanFactor(a, count_padding, h, w);
    float sums[P::kSize] = {};
    for (int64_t at_h = h.begin; at_h < h.end; ++at_h) {
      for (int64_t at_w = w.begin; at_w < w.end; ++at_w) {
        const P values = x[inputs.At(out.row, at_h, at_w, out.pack)];
        for (int k = 0; k < P::kSize; ++k) sums[k] += factor * values[k];
      }
    }
    P result;
    for (int k = 0; k < P::kSize; ++k) result.Set(k, sums[k]);
    y[i] = result;
  }
}

// Like BackwardKernel.
template <typename P>
__global__ void AverageBackwardKernel(PoolingArguments a, bool count_padding, int64_t packs, const P* dy,
                                      P* dx) {
  const PackedImages inputs = InputsOf<P>(a), outputs = OutputsOf<P>(a);
  for (int64_t i = FirstIndex(); i < packs; i += GridSize()) {
    const Place in = PlaceOf(i, inputs);
    const Extent windows_h = CoveringWindows(in.h, a.size_h, a.stride_h, a.before_h, a.out_height);
    const Extent windows_w = CoveringWindows(in.w, a.size_w, a.stride_w, a.before_w, a.out_width);
    float sums[P::kSize] = {};
    for (int64_t out_h = windows_h.begin; out_h < windows_h.end; ++out_h) {
      for (int64_t out_w = windows_w.begin; out_w < windows_w.end; ++out_w) {
        const Extent h = WindowExtent(out_h, a.size_h, a.stride_h, a.before_h, a.height);
        const Extent w = WindowExtent(out_w, a.size_w, a.stride_w, a.before_w, a.width);
        const float factor = MeanFactor(a, count_padding, h, w);
        const P gradients = dy[outputs.At(in.row, out_h, out_w, in.pack)];
        for (int k = 0; k < P::kSize; ++k) sums[k] += factor * gradients[k];
      }
    }
    P result;
    for (int k = 0; k < P::kSize; ++k) result.Set(k, sums[k]);
    dx[i] = result;
  }
}

// The packs of the images that a kernel writes.
int64_t OutputPacks(const PoolingArguments& a, int size) {
  return a.rows * a.out_height * a.out_width * (a.channels / size);
}
int64_t InputPacks(const PoolingArguments& a, int size) {
  return a.rows * a.height * a.width * (a.channels / size);
}

}  // namespace

cudaError_t AveragePoolingForward(cudaStream_t stream, ElementType type, const PoolingArguments& arguments,
                                  bool count_padding, const void* x, void* y) {
  return ForPacks(type, arguments.channels, {x, y}, [&](auto pack) {
    using P = decltype(pack);
    const int64_t packs = OutputPacks(arguments, P::kSize);
    return Launch(AverageForwardKernel<P>, BlocksFor(packs), kThreads, stream, arguments, count_padding,
                  packs, static_cast<const P*>(x), static_cast<P*>(y));
  });
}

cudaError_t AveragePoolingBackward(cudaStream_t stream, ElementType type, const PoolingArguments& arguments,
                                   bool count_padding, const void* dy, void* dx) {
  return ForPacks(type, arguments.channels, {dy, dx}, [&](auto pack) {
    using P = decltype(pack);
    const int64_t packs = InputPacks(arguments, P::kSize);
    return Launch(AverageBackwardKernel<P>, BlocksFor(packs), kThreads, stream, arguments, count_padding,
                  packs, static_cast<const P*>(dy), static_cast<P*>(dx));
  });
}

cudaError_t MaxPoolingForward(cudaStream_t stream, ElementType type, const PoolingArguments& arguments,
                              const void* x, void* y) {
  return ForPacks(type, arguments.channels, {x, y}, [&](auto pack) {
    using P = decltype(pack);
    const int64_t packs = OutputPacks(arguments, P::kSize);
    return Launch(ForwardKernel<P>, BlocksFor(packs), kThreads, stream, arguments, packs,
                  static_cast<const P*>(x), static_cast<P*>(y));
  });
}

cudaError_t MaxPoolingBackward(cudaStream_t stream, ElementType type, const PoolingArguments& arguments,
                               const void* x, const void* y, const void* dy, void* dx) {
  return ForPacks(type, arguments.channels, {x, y, dy, dx}, [&](auto pack) {
    using P = decltype(pack);
    const int64_t packs = InputPacks(arguments, P::kSize);
    return Launch(BackwardKernel<P>, BlocksFor(packs), kThreads, stream, arguments, packs,
                  static_cast<const P*>(x), static_cast<const P*>(y), static_cast<const P*>(dy),
                  static_cast<P*>(dx));
  });
}

}  // namespace tethys::cuda
