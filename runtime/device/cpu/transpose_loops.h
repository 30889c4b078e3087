// Transposes tiles in vector registers. Included by kernels.cc only, once per instruction set.
#ifndef TETHYS_RUNTIME_DEVICE_CPU_TRANSPOSE_LOOPS_H_
#define TETHYS_RUNTIME_DEVICE_CPU_TRANSPOSE_LOOPS_H_

#include <cstdint>
#include <cstring>

#include "runtime/device/cpu/kernels.h"

namespace tethys::cpu {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
static_assert(kTile % kLanes == 0);
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));
typedef int32_t LaneNumbers __attribute__((vector_size(kLanes * sizeof(int32_t))));

// In each group of 2 kDistance lanes, exchanges the second half of row `a` with the first half of row `b`.
// Done for all pairs of rows that are kDistance apart, this exchanges the off-diagonal quarters of each
// square of 2 kDistance x 2 kDistance elements.
template <int kDistance>
void ExchangeHalves(Lanes& a, Lanes& b) {
  LaneNumbers first = {}, second = {};
  for (int lane = 0; lane < kLanes; ++lane) {
    const bool is_second = (lane & kDistance) != 0;
    first[lane] = is_second ? kLanes + lane - kDistance : lane;
    second[lane] = is_second ? kLanes + lane : lane + kDistance;
  }
#ifdef __clang__
  const Lanes old_a = a, old_b = b;
  for (int lane = 0; lane < kLanes; ++lane) {
    a[lane] = first[lane] < kLanes ? old_a[first[lane]] : old_b[first[lane] - kLanes];
    b[lane] = second[lane] < kLanes ? old_a[second[lane]] : old_b[second[lane] - kLanes];
  }
#else
  const Lanes upper = __builtin_shuffle(a, b, first);
  b = __builtin_shuffle(a, b, second);
  a = upper;
#endif
}

template <int kDistance>
void ExchangeAllHalves(Lanes (&rows)[kLanes]) {
  for (int row = 0; row < kLanes; ++row) {
    if ((row & kDistance) == 0) ExchangeHalves<kDistance>(rows[row], rows[row + kDistance]);
  }
}

// to[c * to_stride + r] = from[r * from_stride + c], for r and c below kLanes.
inline __attribute__((always_inline)) void TransposeLanes(const float* from, int64_t from_stride, float* to,
                                                          int64_t to_stride) {
  Lanes rows[kLanes];
  for (int row = 0; row < kLanes; ++row) std::memcpy(&rows[row], from + row * from_stride, sizeof(Lanes));
  ExchangeAllHalves<1>(rows);
  ExchangeAllHalves<2>(rows);
  if constexpr (kLanes > 4) ExchangeAllHalves<4>(rows);
  if constexpr (kLanes > 8) ExchangeAllHalves<8>(rows);
  for (int row = 0; row < kLanes; ++row) std::memcpy(to + row * to_stride, &rows[row], sizeof(Lanes));
}

void TransposeTiles(int64_t count, const float* __restrict from, int64_t from_stride, int64_t from_step,
                    float* __restrict to, int64_t to_stride, int64_t to_step) {
  for (int64_t tile = 0; tile < count; ++tile, from += from_step, to += to_step) {
    for (int row = 0; row < kTile; row += kLanes) {
      for (int column = 0; column < kTile; column += kLanes) {
        TransposeLanes(from + row * from_stride + column, from_stride, to + column * to_stride + row,
                       to_stride);
      }
    }
  }
}

}  // namespace
}  // namespace tethys::cpu

#endif  // TETHYS_RUNTIME_DEVICE_CPU_TRANSPOSE_LOOPS_H_
