// Sums and activation functions, with one thread per pack of elements, and dropout.
#include "runtime/device/cuda/elements.h"
#include "runtime/device/cuda/grid.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/launch.h"

namespace tethys::cuda {
namespace {

// Comparisons with NaN are false, so NaN stays.
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

// One thread per Philox block of four elements; the first and the last thread may write fewer.
template <typename T>
__global__ void DropKernel(DropoutShape shape, PhiloxKey key, const uint64_t* first_row, const T* in,
                           T* out) {
  const int64_t count = shape.rows * shape.elements;
  const uint64_t first = *first_row * static_cast<uint64_t>(shape.elements);
  const auto before = static_cast<int64_t>(first % 4);  // Elements of the first block that precede out.
  const float scale = 1 / (1 - shape.rate);
  for (int64_t i = FirstIndex(); i * 4 < before + count; i += GridSize()) {
    const PhiloxBlock block = Philox4x32(key, first / 4 + i, shape.layer);
    for (int word = 0; word < 4; ++word) {
      const int64_t at = i * 4 + word - before;
      if (at < 0 || at >= count) continue;
      out[at] = Round<T>(ToUnitFloat(block.words[word]) >= shape.rate ? Widen(in[at]) * scale : 0.0f);
    }
  }
}

}  // namespace

cudaError_t Drop(cudaStream_t stream, ElementType type, const DropoutShape& shape, PhiloxKey key,
                 const uint64_t* first_row, const void* in, void* out) {
  // A fourth of the elements, and a block that is begun before them.
  const unsigned blocks = BlocksFor(Divide(shape.rows * shape.elements, 4) + 1);
  return ForType(type, [&](auto element) {
    using T = decltype(element);
    return Launch(DropKernel<T>, blocks, kThreads, stream, shape, key, first_row, static_cast<const T*>(in),
                  static_cast<T*>(out));
  });
}

cudaError_t Add(cudaStream_t stream, const SumShape& shape, const void* a, const void* b, void* sum) {
  return ForPacks(shape.type, shape.count, {a, b, sum}, [&](auto pack) {
    using P = decltype(pack);
    const int64_t packs = shape.count / P::kSize;
    return Launch(AddKernel<P>, BlocksFor(packs), kThreads, stream, packs, shape.relu,
                  static_cast<const P*>(a), static_cast<const P*>(b), static_cast<P*>(sum));
  });
}

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

}  // namespace tethys::cuda
