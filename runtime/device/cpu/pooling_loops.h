// The pooling loops of the CPU back end, a part of kernels.cc, which is compiled once per instruction set.
// Included by kernels.cc only. The loops are in an anonymous namespace, so that the linker does not replace a
// loop by the same loop for another instruction set.
#ifndef TETHYS_RUNTIME_DEVICE_CPU_POOLING_LOOPS_H_
#define TETHYS_RUNTIME_DEVICE_CPU_POOLING_LOOPS_H_

#include "runtime/device/cpu/kernels.h"

namespace tethys::cpu {
namespace {

// NaN counts as larger than all numbers.
bool IsLarger(float x, float y) { return x > y || x != x; }

void Maximum(int64_t count, const float* __restrict x, float* __restrict largest) {
  for (int64_t i = 0; i < count; ++i) largest[i] = IsLarger(x[i], largest[i]) ? x[i] : largest[i];
}

Extent ColumnsOf(const WindowColumns& windows, int64_t position) {
  return WindowExtent(position, windows.size, windows.stride, windows.before, windows.width);
}

void PoolColumns(const WindowColumns& windows, const float* columns, float* __restrict y) {
  const int64_t channels = windows.channels;
  for (int64_t p = 0; p < windows.positions; ++p, y += channels) {
    const auto [begin, end] = ColumnsOf(windows, p);
    for (int64_t c = 0; c < channels; ++c) y[c] = columns[begin * channels + c];
    for (int64_t w = begin + 1; w < end; ++w) Maximum(channels, columns + w * channels, y);
  }
}

// Uses masks instead of conditions, because compilers turn a conditional sum into a branch, which is slow for
// random data.
void MoveWhereEqual(int64_t count, const float* __restrict x, const float* __restrict largest,
                    float* __restrict d, float* __restrict dx) {
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t equal = x[i] == largest[i] ? ~uint32_t{0} : 0;
    const auto bits = __builtin_bit_cast(uint32_t, d[i]);
    dx[i] += __builtin_bit_cast(float, bits& equal);
    d[i] = __builtin_bit_cast(float, bits & ~equal);
  }
}

void UnpoolColumns(const WindowColumns& windows, const float* columns, const float* y, const float* dy,
                   float* __restrict dcolumns) {
  constexpr int64_t kMost = 64;  // The most channels handled at a time.
  float left[kMost];
  const int64_t channels = windows.channels;
  for (int64_t p = 0; p < windows.positions; ++p, y += channels, dy += channels) {
    const auto [begin, end] = ColumnsOf(windows, p);
    for (int64_t c = 0; c < channels; c += kMost) {
      const int64_t count = channels - c < kMost ? channels - c : kMost;
      for (int64_t k = 0; k < count; ++k) left[k] = dy[c + k];
      for (int64_t i = begin * channels + c; i < end * channels; i += channels) {
        MoveWhereEqual(count, columns + i, y + c, left, dcolumns + i);
      }
    }
  }
}

// Calls visit(out, in, factor of the mean) for every pixel of every window, in row-major order. `out` and
// `in` are the offsets, in elements, of the first channels of the output pixel and of the input pixel.
template <typename Visit>
void ForEachPooled(const PoolingWindows& g, const Visit& visit) {
  const float whole = 1.0f / static_cast<float>(g.size_h * g.size_w);
  for (int64_t row = 0; row < g.rows; ++row) {
    for (int64_t i = 0; i < g.out_height * g.out_width; ++i) {
      const auto [top, bottom] = WindowExtent(i / g.out_width, g.size_h, g.stride_h, g.before_h, g.height);
      const auto [left, right] = WindowExtent(i % g.out_width, g.size_w, g.stride_w, g.before_w, g.width);
      const auto pixels = static_cast<float>((bottom - top) * (right - left));
      const float factor = g.count_padding ? whole : 1.0f / pixels;
      const int64_t out = (row * g.out_height * g.out_width + i) * g.channels;
      for (int64_t h = top; h < bottom; ++h) {
        for (int64_t w = left; w < right; ++w) {
          visit(out, ((row * g.height + h) * g.width + w) * g.channels, factor);
        }
      }
    }
  }
}

void AveragePool(const PoolingWindows& g, const float* __restrict x, float* __restrict y) {
  for (int64_t i = 0; i < g.rows * g.out_height * g.out_width * g.channels; ++i) y[i] = 0.0f;
  ForEachPooled(g, [&](int64_t out, int64_t in, float factor) {
    for (int64_t c = 0; c < g.channels; ++c) y[out + c] += factor * x[in + c];
  });
}

void AverageUnpool(const PoolingWindows& g, const float* __restrict dy, float* __restrict dx) {
  for (int64_t i = 0; i < g.rows * g.height * g.width * g.channels; ++i) dx[i] = 0.0f;
  ForEachPooled(g, [&](int64_t out, int64_t in, float factor) {
    for (int64_t c = 0; c < g.channels; ++c) dx[in + c] += factor * dy[out + c];
  });
}

}  // namespace
}  // namespace tethys::cpu

#endif  // TETHYS_RUNTIME_DEVICE_CPU_POOLING_LOOPS_H_
