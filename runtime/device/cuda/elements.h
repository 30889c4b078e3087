// Access to activations in the kernels of .cu files. Kernels read activations as floats, and round results to
// the type of activations when they write them. A kernel is a template over the type of a pack. A pack is the
// consecutive elements that one load or store moves.
//
//   template <typename P>
//   __global__ void HalveKernel(int64_t packs, const P* x, P* y) {
//     for (int64_t i = FirstIndex(); i < packs; i += GridSize()) {
//       y[i] = Made<P>([](float value) { return value / 2; }, x[i]);
//     }
//   }
//   return ForPacks(type, count, {x, y}, [&](auto pack) {
//     using P = decltype(pack);
//     return Launch(HalveKernel<P>, blocks, kThreads, stream, count / P::kSize, ...);
//   });
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_ELEMENTS_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_ELEMENTS_H_

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "runtime/device/element_type.h"

namespace tethys::cuda {

__device__ inline float Widen(float value) { return value; }
__device__ inline float Widen(__nv_bfloat16 value) { return __bfloat162float(value); }

// Rounds to the nearest value, and ties to the even one.
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

template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  using Element = T;
  static constexpr int kSize = kCount;

  __device__ float operator[](int i) const { return Widen(elements[i]); }
  __device__ void Set(int i, float value) { elements[i] = Round<T>(value); }

  T elements[kCount];
};

// The pack whose element i is make(packs[i]...). Packs are passed by value, so that each is one load.
template <typename P, typename Make, typename... Packs>
__device__ P Made(const Make& make, Packs... packs) {
  P made;
  for (int i = 0; i < P::kSize; ++i) made.Set(i, make(packs[i]...));
  return made;
}

// Calls `launch` with a value of the C++ type that `type` denotes.
template <typename Launcher>
cudaError_t ForType(ElementType type, const Launcher& launch) {
  return type == ElementType::kBfloat16 ? launch(__nv_bfloat16()) : launch(float());
}

inline constexpr int kPackBytes = 16;

// Calls `launch` with the number of elements of a pack: kWide, if kWide divides `count` and the arrays are
// aligned to kPackBytes, otherwise 1.
template <int kWide, typename Launcher>
cudaError_t ForWidth(int64_t count, std::initializer_list<const void*> arrays, const Launcher& launch) {
  bool fits = count % kWide == 0;
  for (const void* array : arrays) fits = fits && reinterpret_cast<uintptr_t>(array) % kPackBytes == 0;
  return fits ? launch(std::integral_constant<int, kWide>()) : launch(std::integral_constant<int, 1>());
}

// Calls `launch` with a pack of kPackBytes, if `count` and the alignment of the arrays allow it; otherwise
// with a pack of one element.
template <typename Launcher>
cudaError_t ForPacks(ElementType type, int64_t count, std::initializer_list<const void*> arrays,
                     const Launcher& launch) {
  return ForType(type, [&](auto element) {
    using T = decltype(element);
    return ForWidth<kPackBytes / sizeof(T)>(
        count, arrays, [&](auto width) { return launch(Pack<T, decltype(width)::value>()); });
  });
}

}  // namespace tethys::cuda

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_ELEMENTS_H_
