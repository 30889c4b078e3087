// Sums and activation functions, with one thread per element, and dropout.
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

__global__ void AddKernel(SumShape shape, const float* a, const float* b, float* sum) {
  for (int64_t i = FirstIndex(); i < shape.count; i += GridSize()) {
    const float value = a[i] + b[i];
    sum[i] = shape.relu ? ValueOf(ActivationFunction::kRelu, value) : value;
  }
}

__global__ void ActivateKernel(ActivationFunction function, int64_t count, const float* x, float* y) {
  for (int64_t i = FirstIndex(); i < count; i += GridSize()) y[i] = ValueOf(function, x[i]);
}

__global__ void ActivateBackwardKernel(ActivationFunction function, int64_t count, const float* y,
                                       const float* dy, float* dx) {
  for (int64_t i = FirstIndex(); i < count; i += GridSize()) dx[i] = GradientOf(function, y[i], dy[i]);
}

// One thread per Philox block of four elements; the first and the last thread may write fewer.
__global__ void DropKernel(DropoutShape shape, PhiloxKey key, const uint64_t* first_row, const float* in,
                           float* out) {
  const int64_t count = shape.rows * shape.elements;
  const uint64_t first = *first_row * static_cast<uint64_t>(shape.elements);
  const auto before = static_cast<int64_t>(first % 4);  // Elements of the first block that precede out.
  const float scale = 1 / (1 - shape.rate);
  for (int64_t i = FirstIndex(); i * 4 < before + count; i += GridSize()) {
    const PhiloxBlock block = Philox4x32(key, first / 4 + i, shape.layer);
    for (int word = 0; word < 4; ++word) {
      const int64_t at = i * 4 + word - before;
      if (at < 0 || at >= count) continue;
      out[at] = ToUnitFloat(block.words[word]) >= shape.rate ? in[at] * scale : 0.0f;
    }
  }
}

}  // namespace

cudaError_t Drop(cudaStream_t stream, const DropoutShape& shape, PhiloxKey key, const uint64_t* first_row,
                 const float* in, float* out) {
  // A fourth of the elements, and a block that is begun before them.
  const unsigned blocks = BlocksFor(Divide(shape.rows * shape.elements, 4) + 1);
  return Launch(DropKernel, blocks, kThreads, stream, shape, key, first_row, in, out);
}

cudaError_t Add(cudaStream_t stream, const SumShape& shape, const float* a, const float* b, float* sum) {
  return Launch(AddKernel, BlocksFor(shape.count), kThreads, stream, shape, a, b, sum);
}

cudaError_t Activate(cudaStream_t stream, ActivationFunction function, int64_t count, const float* x,
                     float* y) {
  return Launch(ActivateKernel, BlocksFor(count), kThreads, stream, function, count, x, y);
}

cudaError_t ActivateBackward(cudaStream_t stream, ActivationFunction function, int64_t count, const float* y,
                             const float* dy, float* dx) {
  return Launch(ActivateBackwardKernel, BlocksFor(count), kThreads, stream, function, count, y, dy, dx);
}

}  // namespace tethys::cuda
