// The loops of the CPU back end that oneDNN does not provide. kernels.cc is compiled to one table of kernels
// per instruction set, and a device picks a table when it is created. (Indirect functions, which would pick
// at load time, crash under ThreadSanitizer.) Thread-safe: the kernels have no state. They never block or
// allocate.
//
// Invariants:
// 1. An element's result depends only on its operands, not on its index or the array's alignment.
// 2. Sums are added in the order of rows, on one thread. (Sums over many rows are the sums of blocks, which
// the callers add up in double precision.)
// 3. A NaN operand gives a NaN result. Exceptions: rows of weight 0, gradients that the derivative of relu
// sets to 0 because the output is not positive, and elements that dropout drops. Max pooling drops the
// gradient of a maximum that is NaN.
#ifndef TETHYS_RUNTIME_DEVICE_CPU_KERNELS_H_
#define TETHYS_RUNTIME_DEVICE_CPU_KERNELS_H_

#include <cstdint>

#include "runtime/base/philox.h"
#include "runtime/device/bfloat16.h"
#include "runtime/device/pooling_windows.h"
#include "runtime/device/update_rule.h"

namespace tethys::cpu {

// Windows over a row of pixels [width, channels], padded by `before` pixels that count as absent.
struct WindowColumns {
  int64_t width;
  int64_t channels;
  int64_t positions;
  int64_t size;
  int64_t stride;
  int64_t before;
};

// Batch normalisation turns a value x of channel c into (x - mean[c]) * factor[c] + offset[c] and then, with
// relu, into the maximum of this value and 0.
struct Normalisation {
  int64_t channels;
  const float* mean;
  const float* factor;
  const float* offset;
  bool relu;
};

// An activation function and its derivative, which is computed from the output y. `y` may be `x`, `dx` may be
// `dy`.
struct ActivationLoops {
  void (*forward)(int64_t count, const float* x, float* y);
  void (*backward)(int64_t count, const float* y, const float* dy, float* dx);
};

// Products of a dense layer with few rows: y [rows, out] = x [rows, in] weights [in, out]; dx = dy weights^T;
// dweights = x^T dy. No array may overlap another.
struct ThinProducts {
  void (*forward)(int64_t in, int64_t out, const float* x, const float* weights, float* y);
  void (*data)(int64_t in, int64_t out, const float* dy, const float* weights, float* dx);
  void (*weights)(int64_t in, int64_t out, const float* x, const float* dy, float* dweights);
};
inline constexpr int kMostThinRows = 4;

inline constexpr int64_t kTile = 16;  // The number of rows and columns of a tile that is transposed.

// Updates `count` elements by one formula (update_formulas.h). `slots` has a pointer for each slot of the
// formula.
using UpdateLoop = void (*)(int64_t count, const UpdateConstants& constants, const UpdateRates& rates,
                            const RegionFactors& region, float* w, const float* gradient_sums,
                            float* const* slots);
struct UpdateLoops {
  int slots;
  UpdateLoop coupled;
  UpdateLoop decoupled;  // The loop for decoupled weight decay; null if the formula has a trust ratio.
  // Null unless the formula has a trust ratio. Writes to `measured` the vector whose norm the trust ratio
  // depends on.
  void (*measure)(int64_t count, const UpdateConstants& constants, const UpdateRates& rates,
                  float weight_decay, const float* w, const float* gradient_sums, float* const* slots,
                  float* measured);
  float (*trust_ratio)(const UpdateConstants& constants, float weight_decay, const RegionSquares& squares);
};

// Matrices are row-major and contiguous; two arrays of one call must not overlap, unless they are the same
// array.
struct Kernels {
  const char* instruction_set;

  // y[r, c] += bias[c]; add_bias_relu then replaces negative values by 0.
  void (*add_bias)(int64_t rows, int64_t columns, const float* bias, float* y);
  void (*add_bias_relu)(int64_t rows, int64_t columns, const float* bias, float* y);

  // sums[c] = sum over r of dy[r, c]; mask_and_sum_columns first sets dy[r, c] to 0 if y[r, c] is not
  // positive.
  void (*sum_columns)(int64_t rows, int64_t columns, const float* dy, float* sums);
  void (*mask_and_sum_columns)(int64_t rows, int64_t columns, const float* y, float* dy, float* sums);

  // largest[i] = max(largest[i], x[i]). Max pooling takes the maximum over the rows of a window with this
  // kernel, and then over its columns with pool_columns.
  void (*maximum)(int64_t count, const float* x, float* largest);
  // y[p, c] = max over the columns of window p of columns[column, c].
  void (*pool_columns)(const WindowColumns& windows, const float* columns, float* y);
  // Derivative of pool_columns: dcolumns[column, c] += dy[p, c] for the first column of window p that equals
  // y[p, c].
  void (*unpool_columns)(const WindowColumns& windows, const float* columns, const float* y, const float* dy,
                         float* dcolumns);
  // If x[i] == largest[i], adds d[i] to dx[i] and sets d[i] to 0, so that only the first of several equal
  // rows gets the gradient.
  void (*move_where_equal)(int64_t count, const float* x, const float* largest, float* d, float* dx);

  // y = the mean of each window. average_unpool computes the derivative, and overwrites dx.
  void (*average_pool)(const PoolingWindows& windows, const float* x, float* y);
  void (*average_unpool)(const PoolingWindows& windows, const float* dy, float* dx);

  // means[c] = mean over p of x[p, c]; squares[c] = sum over p of (x[p, c] - means[c])^2.
  void (*channel_moments)(int64_t positions, int64_t channels, const float* x, float* means, float* squares);
  // y [positions, channels]; `y` may be `x`.
  void (*normalise)(int64_t positions, const Normalisation& n, const float* x, float* y);
  // sums[c] = sum over p of dy[p, c]; products[c] = sum over p of dy[p, c] (x[p, c] - mean[c]). With relu,
  // this kernel and normalised_gradient take dy as 0 where the output is not positive.
  void (*normalised_gradient_sums)(int64_t positions, const Normalisation& n, const float* x, const float* dy,
                                   float* sums, float* products);
  // dx = factor[c] (dy - mean_dy[c] - (x - mean[c]) slope[c]); `dx` may be `dy`.
  void (*normalised_gradient)(int64_t positions, const Normalisation& n, const float* mean_dy,
                              const float* slope, const float* x, const float* dy, float* dx);

  // sum[i] = a[i] + b[i]; add_relu then replaces negative sums by 0. `sum` may be `a` or `b`, and `a` may be
  // `b`.
  void (*add)(int64_t count, const float* a, const float* b, float* sum);
  void (*add_relu)(int64_t count, const float* a, const float* b, float* sum);
  const ActivationLoops* activations;  // Indexed by ActivationFunction.

  // out[r, c] = in[r, c] - max over c of in[r, c].
  void (*subtract_row_maximum)(int64_t rows, int64_t columns, const float* in, float* out);
  // exp in place for values <= 0, relative error below 3e-7; values below -87 count as -87.
  void (*exponentials)(int64_t count, float* values);

  // out = in * scale + shift, for bytes.
  void (*convert_bytes)(int64_t count, float scale, float shift, const uint8_t* in, float* out);
  // out = in * scale + shift, for bytes, with scales and shifts that repeat after `period` bytes.
  void (*convert_channels)(int64_t count, int64_t period, const float* scales, const float* shifts,
                           const uint8_t* in, float* out);
  // The conversions of convert_bytes and convert_channels, for floats.
  void (*convert_floats)(int64_t count, float scale, float shift, const float* in, float* out);
  void (*convert_float_channels)(int64_t count, int64_t period, const float* scales, const float* shifts,
                                 const float* in, float* out);

  // Rounding is to nearest, ties to even; widening is exact.
  void (*round_to_bfloat16)(int64_t count, const float* in, Bfloat16* out);
  void (*widen_bfloat16)(int64_t count, const Bfloat16* in, float* out);

  bool (*all_finite)(int64_t count, const float* values);

  // Computes SumOfSquaresInLanes (sum_of_squares.h).
  double (*sum_of_squares)(int64_t count, const float* values);

  const UpdateLoops* updates;  // Indexed by UpdateFormula.

  const ThinProducts* thin_products;  // Indexed by rows - 1, up to kMostThinRows.

  // Transposes `count` tiles. For each tile t, and for r and c below kTile:
  //   to[t * to_step + c * to_stride + r] = from[t * from_step + r * from_stride + c]
  void (*transpose_tiles)(int64_t count, const float* from, int64_t from_stride, int64_t from_step, float* to,
                          int64_t to_stride, int64_t to_step);

  // out[i] = ToUnitFloat of number first + i of the stream of (key, step), numbered as in RandomStream.
  void (*uniform)(PhiloxKey key, uint64_t step, uint64_t first, int64_t count, float* out);
  // out[i] = numbers[i] >= rate ? in[i] * scale : 0; `out` may be `in`.
  void (*keep)(int64_t count, float rate, float scale, const float* numbers, const float* in, float* out);
};

// The kernels of the widest instruction set that this processor supports.
const Kernels& SelectKernels();

}  // namespace tethys::cpu

#endif  // TETHYS_RUNTIME_DEVICE_CPU_KERNELS_H_
