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

// The factor that turns a window's sum into its mean.
__device__ float MeanFactor(const PoolingArguments& a, bool count_padding, const Extent& h, const Extent& w) {
  const int64_t elements = count_padding ? a.size_h * a.size_w : (h.end - h.begin) * (w.end - w.begin);
  return 1.0f / static_cast<float>(elements);
}

template <typename P>
__global__ void AveragePoolingForwardKernel(PoolingArguments a, bool count_padding, int64_t packs, const P* x,
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

// One thread sums the gradients of a pack of x over the windows that cover it, in a fixed order.
template <typename P>
__global__ void AveragePoolingBackwardKernel(PoolingArguments a, bool count_padding, int64_t packs,
                                             const P* dy, P* dx) {
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

cudaError_t AveragePoolingForward(cudaStream_t stream, ElementType type, const PoolingArguments& arguments,
                                  bool count_padding, const void* x, void* y) {
  return ForPacks(type, arguments.channels, {x, y}, [&](auto pack) {
    using P = decltype(pack);
    const int64_t packs = OutputPacks(arguments, P::kSize);
    return Launch(AveragePoolingForwardKernel<P>, BlocksFor(packs), kThreads, stream, arguments,
                  count_padding, packs, static_cast<const P*>(x), static_cast<P*>(y));
  });
}

cudaError_t AveragePoolingBackward(cudaStream_t stream, ElementType type, const PoolingArguments& arguments,
                                   bool count_padding, const void* dy, void* dx) {
  return ForPacks(type, arguments.channels, {dy, dx}, [&](auto pack) {
    using P = decltype(pack);
    const int64_t packs = InputPacks(arguments, P::kSize);
    return Launch(AveragePoolingBackwardKernel<P>, BlocksFor(packs), kThreads, stream, arguments,
                  count_padding, packs, static_cast<const P*>(dy), static_cast<P*>(dx));
  });
}

class AveragePooling final : public AveragePoolingPrimitive {
 public:
  AveragePooling(ElementType type, const PoolingArguments& arguments, bool count_padding)
      : type_(type), arguments_(arguments), count_padding_(count_padding) {}

  absl::Status Forward(Stream& stream, const void* x, void* y) override {
    TETHYS_RETURN_IF_CUDA_ERROR(
        AveragePoolingForward(Handle(stream), type_, arguments_, count_padding_, x, y));
    return absl::OkStatus();
  }
  absl::Status Backward(Stream& stream, const void* dy, void* dx) override {
    TETHYS_RETURN_IF_CUDA_ERROR(
        AveragePoolingBackward(Handle(stream), type_, arguments_, count_padding_, dy, dx));
    return absl::OkStatus();
  }

 private:
  const ElementType type_;
  const PoolingArguments arguments_;
  const bool count_padding_;
};

}  // namespace

Created<AveragePoolingShape> Create(const AveragePoolingShape& shape, const Libraries& libraries) {
  return std::make_unique<AveragePooling>(libraries.activations, ArgumentsOf(shape), shape.count_padding);
}

}  // namespace tethys::cuda
