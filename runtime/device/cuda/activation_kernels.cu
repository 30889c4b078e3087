// Sums and activation functions, with one thread per element, and dropout.
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

template <typename T>
__global__ void AddKernel(SumShape shape, const T* a, const T* b, T* sum) {
  for (int64_t i = FirstIndex(); i < shape.count; i += GridSize()) {
    const float value = Widen(a[i]) + Widen(b[i]);
    sum[i] = Round<T>(shape.relu ? ValueOf(ActivationFunction::kRelu, value) : value);
  }
}

template <typename T>
__global__ void ActivateKernel(ActivationFunction function, int64_t count, const T* x, T* y) {
  for (int64_t i = FirstIndex(); i < count; i += GridSize()) y[i] = Round<T>(ValueOf(function, Widen(x[i])));
}

template <typename T>
__global__ void ActivateBackwardKernel(ActivationFunction function, int64_t count, const T* y, const T* dy,
                                       T* dx) {
  for (int64_t i = FirstIndex(); i < count; i += GridSize()) {
    dx[i] = Round<T>(GradientOf(function, Widen(y[i]), Widen(dy[i])));
  }
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
  return ForType(shape.type, [&](auto element) {
    using T = decltype(element);
    return Launch(AddKernel<T>, BlocksFor(shape.count), kThreads, stream, shape, static_cast<const T*>(a),
                  static_cast<const T*>(b), static_cast<T*>(sum));
  });
}

cudaError_t Activate(cudaStream_t stream, ElementType type, ActivationFunction function, int64_t count,
                     const void* x, void* y) {
  return ForType(type, [&](auto element) {
    using T = decltype(element);
    return Launch(ActivateKernel<T>, BlocksFor(count), kThreads, stream, function, count,
                  static_cast<const T*>(x), static_cast<T*>(y));
  });
}

cudaError_t ActivateBackward(cudaStream_t stream, ElementType type, ActivationFunction function,
                             int64_t count, const void* y, const void* dy, void* dx) {
  return ForType(type, [&](auto element) {
    using T = decltype(element);
    return Launch(ActivateBackwardKernel<T>, BlocksFor(count), kThreads, stream, function, count,
                  static_cast<const T*>(y), static_cast<const T*>(dy), static_cast<T*>(dx));
  });
}

}  // namespace tethys::cuda
