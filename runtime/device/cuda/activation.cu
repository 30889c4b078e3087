// Kernels and primitives of the sum of two arrays, element by element, and of activation functions. One
// thread handles one pack of elements (elements.h).
#include "runtime/device/cuda/cuda_status.h"
#include "runtime/device/cuda/elements.h"
#include "runtime/device/cuda/grid.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/launch.h"
#include "runtime/device/cuda/primitives.h"
#include "runtime/device/cuda/stream.h"

namespace tethys::cuda {
namespace {

// Comparisons with NaN are false, so NaN is kept.
__device__ float ValueOf(ActivationFunction function, float x) {
  switch (function) {
    case ActivationFunction::kRelu:
      return x < 0 ? 0.0f : x;
    case ActivationFunction::kRelu6:
      return x < 0 ? 0.0f : x > 6 ? 6.0f : x;
    case ActivationFunction::kSigmoid:
      return 1 / (1 + expf(-x));
    case ActivationFunction::kTanh:
      return tanhf(x);
  }
  return x;
}

__device__ float GradientOf(ActivationFunction function, float y, float dy) {
  switch (function) {
    case ActivationFunction::kRelu:
      return y > 0 ? dy : 0.0f;
    case ActivationFunction::kRelu6:
      return y > 0 && y < 6 ? dy : 0.0f;
    case ActivationFunction::kSigmoid:
      return dy * y * (1 - y);
    case ActivationFunction::kTanh:
      return dy * (1 - y * y);
  }
  return dy;
}

template <typename P>
__global__ void AddKernel(int64_t packs, bool relu, const P* a, const P* b, P* sum) {
  const auto add = [relu](float left, float right) {
    const float value = left + right;
    return relu ? ValueOf(ActivationFunction::kRelu, value) : value;
  };
  for (int64_t i = FirstIndex(); i < packs; i += GridSize()) sum[i] = Made<P>(add, a[i], b[i]);
}

template <typename P>
__global__ void ActivateKernel(ActivationFunction function, int64_t packs, const P* x, P* y) {
  const auto activate = [function](float value) { return ValueOf(function, value); };
  for (int64_t i = FirstIndex(); i < packs; i += GridSize()) y[i] = Made<P>(activate, x[i]);
}

template <typename P>
__global__ void ActivateBackwardKernel(ActivationFunction function, int64_t packs, const P* y, const P* dy,
                                       P* dx) {
  const auto gradient = [function](float value, float of_value) {
    return GradientOf(function, value, of_value);
  };
  for (int64_t i = FirstIndex(); i < packs; i += GridSize()) dx[i] = Made<P>(gradient, y[i], dy[i]);
}

cudaError_t Add(cudaStream_t stream, const SumShape& shape, const void* a, const void* b, void* sum) {
  return ForPacks(shape.type, shape.count, {a, b, sum}, [&](auto pack) {
    using P = decltype(pack);
    const int64_t packs = shape.count / P::kSize;
    return Launch(AddKernel<P>, BlocksFor(packs), kThreads, stream, packs, shape.relu,
                  static_cast<const P*>(a), static_cast<const P*>(b), static_cast<P*>(sum));
  });
}

class Sum final : public SumPrimitive {
 public:
  explicit Sum(const SumShape& shape) : shape_(shape) {}

  absl::Status Run(Stream& stream, const void* a, const void* b, void* sum) override {
    TETHYS_RETURN_IF_CUDA_ERROR(Add(Handle(stream), shape_, a, b, sum));
    return absl::OkStatus();
  }

 private:
  const SumShape shape_;
};

class Activation final : public ActivationPrimitive {
 public:
  Activation(ElementType type, int64_t count, ActivationFunction function)
      : type_(type), count_(count), function_(function) {}

  absl::Status Forward(Stream& stream, const void* x, void* y) override {
    TETHYS_RETURN_IF_CUDA_ERROR(Activate(Handle(stream), type_, function_, count_, x, y));
    return absl::OkStatus();
  }
  absl::Status Backward(Stream& stream, const void* y, const void* dy, void* dx) override {
    TETHYS_RETURN_IF_CUDA_ERROR(ActivateBackward(Handle(stream), type_, function_, count_, y, dy, dx));
    return absl::OkStatus();
  }

 private:
  const ElementType type_;
  const int64_t count_;
  const ActivationFunction function_;
};

}  // namespace

cudaError_t Activate(cudaStream_t stream, ElementType type, ActivationFunction function, int64_t count,
                     const void* x, void* y) {
  return ForPacks(type, count, {x, y}, [&](auto pack) {
    using P = decltype(pack);
    const int64_t packs = count / P::kSize;
    return Launch(ActivateKernel<P>, BlocksFor(packs), kThreads, stream, function, packs,
                  static_cast<const P*>(x), static_cast<P*>(y));
  });
}

cudaError_t ActivateBackward(cudaStream_t stream, ElementType type, ActivationFunction function,
                             int64_t count, const void* y, const void* dy, void* dx) {
  return ForPacks(type, count, {y, dy, dx}, [&](auto pack) {
    using P = decltype(pack);
    const int64_t packs = count / P::kSize;
    return Launch(ActivateBackwardKernel<P>, BlocksFor(packs), kThreads, stream, function, packs,
                  static_cast<const P*>(y), static_cast<const P*>(dy), static_cast<P*>(dx));
  });
}

Created<SumShape> Create(const SumShape& shape, const Libraries& libraries) {
  TETHYS_RETURN_IF_ERROR(CheckType(shape, libraries.activations));
  return std::make_unique<Sum>(shape);
}

Created<ActivationShape> Create(const ActivationShape& shape, const Libraries& libraries) {
  return std::make_unique<Activation>(libraries.activations, shape.count, shape.function);
}

}  // namespace tethys::cuda
