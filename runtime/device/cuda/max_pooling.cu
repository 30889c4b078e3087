// Max pooling: kernels and primitive.
#include "runtime/device/cuda/cuda_status.h"
#include "runtime/device/cuda/elements.h"
#include "runtime/device/cuda/grid.h"
#include "runtime/device/cuda/launch.h"
#include "runtime/device/cuda/pooling_windows.h"
#include "runtime/device/cuda/primitives.h"
#include "runtime/device/cuda/stream.h"

namespace tethys::cuda {
namespace {

template <typename P>
__global__ void MaxPoolingForwardKernel(PoolingWindows a, int64_t packs, const P* x, P* y) {
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
        for (int k = 0; k < P::kSize; ++k) {  // NaN is kept.
          if (values[k] > largest[k] || isnan(values[k])) largest.elements[k] = values.elements[k];
        }
      }
    }
    y[i] = largest;
  }
}

// Clears first[k] if an element of the window that comes before place `in`, in row-major order, equals the
// window's maximum `largest` in channel k. So only the first of several equal maxima gets the gradient.
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
__global__ void MaxPoolingBackwardKernel(PoolingWindows a, int64_t packs, const P* x, const P* y, const P* dy,
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

cudaError_t MaxPoolingForward(cudaStream_t stream, ElementType type, const PoolingWindows& windows,
                              const void* x, void* y) {
  return ForPacks(type, windows.channels, {x, y}, [&](auto pack) {
    using P = decltype(pack);
    const int64_t packs = OutputPacks(windows, P::kSize);
    return Launch(MaxPoolingForwardKernel<P>, BlocksFor(packs), kThreads, stream, windows, packs,
                  static_cast<const P*>(x), static_cast<P*>(y));
  });
}

cudaError_t MaxPoolingBackward(cudaStream_t stream, ElementType type, const PoolingWindows& windows,
                               const void* x, const void* y, const void* dy, void* dx) {
  return ForPacks(type, windows.channels, {x, y, dy, dx}, [&](auto pack) {
    using P = decltype(pack);
    const int64_t packs = InputPacks(windows, P::kSize);
    return Launch(MaxPoolingBackwardKernel<P>, BlocksFor(packs), kThreads, stream, windows, packs,
                  static_cast<const P*>(x), static_cast<const P*>(y), static_cast<const P*>(dy),
                  static_cast<P*>(dx));
  });
}

class MaxPooling final : public MaxPoolingPrimitive {
 public:
  MaxPooling(ElementType type, const PoolingWindows& windows) : type_(type), windows_(windows) {}

  absl::Status Forward(Stream& stream, const void* x, void* y) override {
    TETHYS_RETURN_IF_CUDA_ERROR(MaxPoolingForward(Handle(stream), type_, windows_, x, y));
    return absl::OkStatus();
  }
  absl::Status Backward(Stream& stream, const void* x, const void* y, const void* dy, void* dx) override {
    TETHYS_RETURN_IF_CUDA_ERROR(MaxPoolingBackward(Handle(stream), type_, windows_, x, y, dy, dx));
    return absl::OkStatus();
  }
  int64_t workspace_bytes() const override { return 0; }

 private:
  const ElementType type_;
  const PoolingWindows windows_;
};

}  // namespace

Created<MaxPoolingShape> Create(const MaxPoolingShape& shape, const Libraries& libraries) {
  return std::make_unique<MaxPooling>(libraries.activations, WindowsOf(shape));
}

}  // namespace tethys::cuda
