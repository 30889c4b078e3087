// The sum of squares of floats, by which gradients are clipped and their noise is measured: one loop for the
// CPU back end, which compiles it once per instruction set, and for parameter servers (ps/payload.h).
#ifndef TETHYS_RUNTIME_DEVICE_SUM_OF_SQUARES_H_
#define TETHYS_RUNTIME_DEVICE_SUM_OF_SQUARES_H_

#include <cstdint>

namespace tethys {
namespace {

// Adds value i in lane i mod 16 of 16 lanes, then adds up the lanes in order. The result has the same bits on
// every processor, with fused multiply-add or without, because the square of a float is exact in double
// precision. The lanes are independent, so the loop is vectorised.
inline double SumOfSquaresInLanes(int64_t count, const float* values) {
  constexpr int kLanes = 16;
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      lanes[lane] += value * value;
    }
  }
  for (int lane = 0; i < count; ++i, ++lane) {
    const double value = values[i];
    lanes[lane] += value * value;
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace
}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_SUM_OF_SQUARES_H_
