// Activations in kernels, for .cu files: they are read as floats, and rounded to their type when written.
//
//   template <typename T>
//   __global__ void HalveKernel(int64_t count, const T* x, T* y) {
//     for (int64_t i = FirstIndex(); i < count; i += GridSize()) y[i] = Round<T>(Widen(x[i]) / 2);
//   }
//   return ForType(type, [&](auto element) {
//     using T = decltype(element);
//     return Launch(HalveKernel<T>, blocks, kThreads, stream, count, ...);
//   });
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_ELEMENTS_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_ELEMENTS_H_

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include "runtime/device/element_type.h"

namespace tethys::cuda {

__device__ inline float Widen(float value) { return value; }
__device__ inline float Widen(__nv_bfloat16 value) { return __bfloat162float(value); }

// To nearest, ties to even.
template <typename T>
__device__ T Round(float value);
template <>
__device__ inline float Round<float>(float value) {
  return value;
}
template <>
__device__ inline __nv_bfloat16 Round<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

// Calls `launch` with an element of the type.
template <typename Launcher>
cudaError_t ForType(ElementType type, const Launcher& launch) {
  return type == ElementType::kBfloat16 ? launch(__nv_bfloat16()) : launch(float());
}

}  // namespace tethys::cuda

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_ELEMENTS_H_
