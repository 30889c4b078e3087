// Sums and activation functions, with one thread per element.
#include "runtime/device/cuda/grid.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/launch.h"

namespace tethys::cuda {
namespace {

__global__ void AddKernel(int64_t count, const float* a, const float* b, float* sum) {
  for (int64_t i = FirstIndex(); i < count; i += GridSize()) sum[i] = a[i] + b[i];
}

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

__global__ void ActivateKernel(ActivationFunction function, int64_t count, const float* x, float* y) {
  for (int64_t i = FirstIndex(); i < count; i += GridSize()) y[i] = ValueOf(function, x[i]);
}

__global__ void ActivateBackwardKernel(ActivationFunction function, int64_t count, const float* y,
                                       const float* dy, float* dx) {
  for (int64_t i = FirstIndex(); i < count; i += GridSize()) dx[i] = GradientOf(function, y[i], dy[i]);
}

}  // namespace

cudaError_t Add(cudaStream_t stream, int64_t count, const float* a, const float* b, float* sum) {
  return Launch(AddKernel, BlocksFor(count), kThreads, stream, count, a, b, sum);
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
