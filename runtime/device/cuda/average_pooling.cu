// Average pooling: kernels and primitive.
#include "runtime/device/cuda/cuda_status.h"
#include "runtime/device/cuda/elements.h"
#include "runtime/device/cuda/grid.h"
#include "runtime/device/cuda/launch.h"
#include "runtime/device/cuda/pooling_windows.h"
#include "runtime/device/cuda/primitives.h"
#include "runtime/device/cuda/stream.h"

namespace tethys::cuda {
namespace {

// 1 / the number of elements over which the mean of a window is taken.
__device__ float MeanFactor(const PoolingWindows& a, const Extent& h, const Extent& w) {
  const int64_t elements = a.count_padding ? a.size_h * a.size_w : (h.end - h.begin) * (w.end - w.begin);
  return 1.0f / static_cast<float>(elements);
}

template <typename P>
__global__ void AveragePoolingForwardKernel(PoolingWindows a, int64_t packs, const P* x, P* y) {
  const PackedImages inputs = InputsOf<P>(a);
  for (int64_t i = FirstIndex(); i < packs; i += GridSize()) {
    const Place out = PlaceOf(i, OutputsOf<P>(a));
    const Extent h = WindowExtent(out.h, a.size_h, a.stride_h, a.before_h, a.height);
    const Extent w = WindowExtent(out.w, a.size_w, a.stride_w, a.before_w, a.width);
    const float factor = MeanFactor(a, h, w);
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

// One thread sums the gradients of a pack of x over the windows that cover it, in a fixed order.
template <typename P>
__global__ void AveragePoolingBackwardKernel(PoolingWindows a, int64_t packs, const P* dy, P* dx) {
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
        const float factor = MeanFactor(a, h, w);
        const P gradients = dy[outputs.At(in.row, out_h, out_w, in.pack)];
        for (int k = 0; k < P::kSize; ++k) sums[k] += factor * gradients[k];
      }
    }
    P result;
    for (int k = 0; k < P::kSize; ++k) result.Set(k, sums[k]);
    dx[i] = result;
  }
}

cudaError_t AveragePoolingForward(cudaStream_t stream, ElementType type, const PoolingWindows& windows,
                                  const void* x, void* y) {
  return ForPacks(type, windows.channels, {x, y}, [&](auto pack) {
    using P = decltype(pack);
    const int64_t packs = OutputPacks(windows, P::kSize);
    return Launch(AveragePoolingForwardKernel<P>, BlocksFor(packs), kThreads, stream, windows, packs,
                  static_cast<const P*>(x), static_cast<P*>(y));
  });
}

cudaError_t AveragePoolingBackward(cudaStream_t stream, ElementType type, const PoolingWindows& windows,
                                   const void* dy, void* dx) {
  return ForPacks(type, windows.channels, {dy, dx}, [&](auto pack) {
    using P = decltype(pack);
    const int64_t packs = InputPacks(windows, P::kSize);
    return Launch(AveragePoolingBackwardKernel<P>, BlocksFor(packs), kThreads, stream, windows, packs,
                  static_cast<const P*>(dy), static_cast<P*>(dx));
  });
}

class AveragePooling final : public AveragePoolingPrimitive {
 public:
  AveragePooling(ElementType type, const PoolingWindows& windows) : type_(type), windows_(windows) {}

  absl::Status Forward(Stream& stream, const void* x, void* y) override {
    TETHYS_RETURN_IF_CUDA_ERROR(AveragePoolingForward(Handle(stream), type_, windows_, x, y));
    return absl::OkStatus();
  }
  absl::Status Backward(Stream& stream, const void* dy, void* dx) override {
    TETHYS_RETURN_IF_CUDA_ERROR(AveragePoolingBackward(Handle(stream), type_, windows_, dy, dx));
    return absl::OkStatus();
  }

 private:
  const ElementType type_;
  const PoolingWindows windows_;
};

}  // namespace

Created<AveragePoolingShape> Create(const AveragePoolingShape& shape, const Libraries& libraries) {
  return std::make_unique<AveragePooling>(libraries.activations, WindowsOf(shape, shape.count_padding));
}

}  // namespace tethys::cuda
