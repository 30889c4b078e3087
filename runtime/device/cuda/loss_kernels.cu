// Kernels of the losses: one warp per position or row, then one block that adds up their results.
#include "runtime/device/cuda/elements.h"
#include "runtime/device/cuda/grid.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/launch.h"

namespace tethys::cuda {
namespace {

constexpr int kTop = 5;

template <typename T, typename Combine>
__device__ T AcrossWarp(T value, Combine combine) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, offset));
  }
  return value;
}

__device__ float Larger(float a, float b) { return fmaxf(a, b); }
__device__ float Sum(float a, float b) { return a + b; }
__device__ double SumDoubles(double a, double b) { return a + b; }
__device__ int64_t SumCounts(int64_t a, int64_t b) { return a + b; }
__device__ int64_t Smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// Sets the results of a position that is not counted. The results must not depend on the outputs, which may
// be NaN.
template <typename T>
__device__ void ClearPosition(int lane, int64_t elements, T* dx, double* result) {
  for (int64_t c = lane; dx != nullptr && c < elements; c += kWarp) dx[c] = Round<T>(0);
  if (lane < kLossResults) result[lane] = 0;
}

// The activations from element `first` on; null if there are none.
template <typename T>
__device__ T* ElementsFrom(void* activations, int64_t first) {
  return activations == nullptr ? nullptr : static_cast<T*>(activations) + first;
}

// Runs with one warp per position.
template <typename T>
__global__ void SoftmaxCrossEntropyKernel(SoftmaxCrossEntropyShape shape, LossTensors tensors,
                                          double* results) {
  const int lane = threadIdx.x % kWarp;
  const int64_t point = FirstIndex() / kWarp;
  if (point >= shape.points()) return;  // `point` is the same for the whole warp.
  const int64_t classes = shape.classes;
  const T* x = static_cast<const T*>(tensors.outputs) + point * classes;
  T* dx = ElementsFrom<T>(tensors.doutputs, point * classes);
  double* result = results + point * kLossResults;
  const float weight = tensors.weights[point / shape.positions];
  const int64_t label = tensors.labels[point];
  if (weight == 0 || label == shape.ignore_label) return ClearPosition(lane, classes, dx, result);
  float maximum = -kInfinity;
  for (int64_t c = lane; c < classes; c += kWarp) maximum = fmaxf(maximum, Widen(x[c]));
  maximum = AcrossWarp(maximum, Larger);
  const float label_value = Widen(x[label]);
  float sum = 0, sum_below = 0;
  int64_t first = classes;  // The index of the first maximum.
  int64_t before = 0;       // The number of classes that come before the label in the order of their outputs.
  for (int64_t c = lane; c < classes; c += kWarp) {
    const float value = Widen(x[c]);
    sum += expf(value - maximum);
    sum_below += value - maximum;
    if (value == maximum) first = Smaller(first, c);
    before += value > label_value || (value == label_value && c < label) ? 1 : 0;
  }
  sum = AcrossWarp(sum, Sum);
  first = AcrossWarp(first, Smaller);
  const float smoothing = shape.label_smoothing;
  float expected = label_value - maximum;
  if (smoothing != 0) {
    expected = (1 - smoothing) * expected + smoothing / classes * AcrossWarp(sum_below, Sum);
  }
  if (shape.counts_top5) before = AcrossWarp(before, SumCounts);
  const float share = weight / shape.positions;
  const float scale = share / sum, other = share * smoothing / classes;
  for (int64_t c = lane; dx != nullptr && c < classes; c += kWarp) {
    dx[c] =
        Round<T>(scale * expf(Widen(x[c]) - maximum) - other - (c == label ? share * (1 - smoothing) : 0.0f));
  }
  if (lane != 0) return;
  result[0] = share * (log(static_cast<double>(sum)) - expected);
  result[1] = first == label ? weight : 0;
  result[2] = weight;
  result[3] = shape.counts_top5 && before < kTop ? weight : 0;
  if (tensors.confusion == nullptr || first == classes) return;
  // Sums of integers do not depend on their order.
  atomicAdd(reinterpret_cast<unsigned long long*>(tensors.confusion + label * classes + first), 1ull);
}

// Runs with one warp per row.
template <typename T>
__global__ void MeanSquaredErrorKernel(MeanSquaredErrorShape shape, LossTensors tensors, double* results) {
  const int lane = threadIdx.x % kWarp;
  const int64_t row = FirstIndex() / kWarp;
  if (row >= shape.rows) return;
  const T* x = static_cast<const T*>(tensors.outputs) + row * shape.outputs;
  const float* target = reinterpret_cast<const float*>(tensors.labels) + row * shape.outputs;
  T* dx = ElementsFrom<T>(tensors.doutputs, row * shape.outputs);
  double* result = results + row * kLossResults;
  const float weight = tensors.weights[row];
  if (weight == 0) return ClearPosition(lane, shape.outputs, dx, result);
  const float scale = 2 * weight / shape.outputs;
  double sum = 0;
  for (int64_t i = lane; i < shape.outputs; i += kWarp) {
    const float difference = Widen(x[i]) - target[i];
    sum += static_cast<double>(difference) * difference;
    if (dx != nullptr) dx[i] = Round<T>(scale * difference);
  }
  sum = AcrossWarp(sum, SumDoubles);
  if (lane < kLossResults) result[lane] = lane == 0 ? weight * sum / shape.outputs : 0;
}

// Runs with one block. result[k] = the sum over parts of results[part][k].
__global__ void AddResultsKernel(int64_t parts, const double* results, double* result) {
  __shared__ double sums[kLossResults][kThreads];
  for (int k = 0; k < kLossResults; ++k) {
    double sum = 0;
    for (int64_t part = threadIdx.x; part < parts; part += kThreads) sum += results[part * kLossResults + k];
    sums[k][threadIdx.x] = sum;
  }
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x >= half) continue;
    for (int k = 0; k < kLossResults; ++k) sums[k][threadIdx.x] += sums[k][threadIdx.x + half];
  }
  __syncthreads();
  if (threadIdx.x < kLossResults) result[threadIdx.x] = sums[threadIdx.x][0];
}

unsigned WarpBlocks(int64_t warps) { return static_cast<unsigned>(Divide(warps, kThreads / kWarp)); }

}  // namespace

cudaError_t SoftmaxCrossEntropy(cudaStream_t stream, ElementType type, const SoftmaxCrossEntropyShape& shape,
                                const LossTensors& tensors, double* results) {
  const cudaError_t launched = ForType(type, [&](auto element) {
    return Launch(SoftmaxCrossEntropyKernel<decltype(element)>, WarpBlocks(shape.points()), kThreads, stream,
                  shape, tensors, results);
  });
  if (launched != cudaSuccess) return launched;
  return Launch(AddResultsKernel, 1, kThreads, stream, shape.points(), results,
                reinterpret_cast<double*>(tensors.result));
}

cudaError_t MeanSquaredError(cudaStream_t stream, ElementType type, const MeanSquaredErrorShape& shape,
                             const LossTensors& tensors, double* results) {
  const cudaError_t launched = ForType(type, [&](auto element) {
    return Launch(MeanSquaredErrorKernel<decltype(element)>, WarpBlocks(shape.rows), kThreads, stream, shape,
                  tensors, results);
  });
  if (launched != cudaSuccess) return launched;
  return Launch(AddResultsKernel, 1, kThreads, stream, shape.rows, results,
                reinterpret_cast<double*>(tensors.result));
}

}  // namespace tethys::cuda
