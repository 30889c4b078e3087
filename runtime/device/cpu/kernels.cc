// This file is compiled once per instruction set (CMakeLists.txt), each time with another value of
// TETHYS_KERNELS, which names the table of kernels that the file defines. The file must not include inline
// functions of external linkage: the linker would keep one copy of each function, possibly a copy that this
// processor cannot run. The loops are plain C++, which the compiler vectorises.
#include "runtime/device/cpu/kernels.h"

#include "runtime/device/cpu/pooling_loops.h"
#include "runtime/device/cpu/thin_product_loops.h"
#include "runtime/device/cpu/transpose_loops.h"
#include "runtime/device/cpu/update_loops.h"
#include "runtime/device/sum_of_squares.h"

// Tells GCC that it may vectorise a loop although the loop may write its output over one of its inputs,
// element for element.
#ifdef __clang__
#define TETHYS_IN_PLACE
#else
#define TETHYS_IN_PLACE _Pragma("GCC ivdep")
#endif

namespace tethys::cpu {
namespace {

void AddBias(int64_t rows, int64_t columns, const float* __restrict bias, float* __restrict y) {
  for (int64_t r = 0; r < rows; ++r, y += columns) {
    for (int64_t c = 0; c < columns; ++c) y[c] += bias[c];
  }
}

void AddBiasRelu(int64_t rows, int64_t columns, const float* __restrict bias, float* __restrict y) {
  for (int64_t r = 0; r < rows; ++r, y += columns) {
    for (int64_t c = 0; c < columns; ++c) {
      const float value = y[c] + bias[c];
      y[c] = value < 0.0f ? 0.0f : value;  // Keeps NaN.
    }
  }
}

void SumColumns(int64_t rows, int64_t columns, const float* __restrict dy, float* __restrict sums) {
  for (int64_t c = 0; c < columns; ++c) sums[c] = 0.0f;
  for (int64_t r = 0; r < rows; ++r, dy += columns) {
    for (int64_t c = 0; c < columns; ++c) sums[c] += dy[c];
  }
}

void MaskAndSumColumns(int64_t rows, int64_t columns, const float* __restrict y, float* __restrict dy,
                       float* __restrict sums) {
  for (int64_t c = 0; c < columns; ++c) sums[c] = 0.0f;
  for (int64_t r = 0; r < rows; ++r, y += columns, dy += columns) {
    for (int64_t c = 0; c < columns; ++c) {
      const float value = y[c] > 0.0f ? dy[c] : 0.0f;
      dy[c] = value;
      sums[c] += value;
    }
  }
}

void ChannelMoments(int64_t positions, int64_t channels, const float* __restrict x, float* __restrict means,
                    float* __restrict squares) {
  SumColumns(positions, channels, x, means);
  const float share = 1.0f / static_cast<float>(positions);
  for (int64_t c = 0; c < channels; ++c) means[c] *= share;
  for (int64_t c = 0; c < channels; ++c) squares[c] = 0.0f;
  for (int64_t p = 0; p < positions; ++p, x += channels) {
    for (int64_t c = 0; c < channels; ++c) {
      const float deviation = x[c] - means[c];
      squares[c] += deviation * deviation;
    }
  }
}

float Normalised(const Normalisation& n, int64_t c, float x) {
  return (x - n.mean[c]) * n.factor[c] + n.offset[c];
}

// `x` and `y` may be the same array, so they are not __restrict. The arrays of `n` never overlap `x` or `y`.
template <bool relu>
void NormaliseAs(int64_t positions, const Normalisation& n, const float* x, float* y) {
  for (int64_t p = 0; p < positions; ++p, x += n.channels, y += n.channels) {
    TETHYS_IN_PLACE
    for (int64_t c = 0; c < n.channels; ++c) {
      const float value = Normalised(n, c, x[c]);
      y[c] = relu && value < 0.0f ? 0.0f : value;  // Keeps NaN.
    }
  }
}

void Normalise(int64_t positions, const Normalisation& n, const float* x, float* y) {
  (n.relu ? NormaliseAs<true> : NormaliseAs<false>)(positions, n, x, y);
}

// Returns the gradient with respect to the value before the activation. `dy` is the gradient with respect to
// the value after the activation.
template <bool relu>
float GradientBefore(const Normalisation& n, int64_t c, float x, float dy) {
  return !relu || Normalised(n, c, x) > 0.0f ? dy : 0.0f;
}

template <bool relu>
void NormalisedGradientSumsAs(int64_t positions, const Normalisation& n, const float* __restrict x,
                              const float* __restrict dy, float* __restrict sums,
                              float* __restrict products) {
  for (int64_t c = 0; c < n.channels; ++c) sums[c] = products[c] = 0.0f;
  for (int64_t p = 0; p < positions; ++p, x += n.channels, dy += n.channels) {
    for (int64_t c = 0; c < n.channels; ++c) {
      const float gradient = GradientBefore<relu>(n, c, x[c], dy[c]);
      sums[c] += gradient;
      products[c] += gradient * (x[c] - n.mean[c]);
    }
  }
}

void NormalisedGradientSums(int64_t positions, const Normalisation& n, const float* x, const float* dy,
                            float* sums, float* products) {
  (n.relu ? NormalisedGradientSumsAs<true> : NormalisedGradientSumsAs<false>)(positions, n, x, dy, sums,
                                                                              products);
}

template <bool relu>
void NormalisedGradientAs(int64_t positions, const Normalisation& n, const float* mean_dy, const float* slope,
                          const float* x, const float* dy, float* dx) {
  for (int64_t p = 0; p < positions; ++p, x += n.channels, dy += n.channels, dx += n.channels) {
    TETHYS_IN_PLACE
    for (int64_t c = 0; c < n.channels; ++c) {
      const float gradient = GradientBefore<relu>(n, c, x[c], dy[c]);
      dx[c] = n.factor[c] * (gradient - mean_dy[c] - (x[c] - n.mean[c]) * slope[c]);
    }
  }
}

void NormalisedGradient(int64_t positions, const Normalisation& n, const float* mean_dy, const float* slope,
                        const float* x, const float* dy, float* dx) {
  (n.relu ? NormalisedGradientAs<true> : NormalisedGradientAs<false>)(positions, n, mean_dy, slope, x, dy,
                                                                      dx);
}

void SubtractRowMaximum(int64_t rows, int64_t columns, const float* __restrict in, float* __restrict out) {
  for (int64_t r = 0; r < rows; ++r, in += columns, out += columns) {
    float maximum = in[0];
    for (int64_t c = 1; c < columns; ++c) maximum = in[c] > maximum ? in[c] : maximum;
    for (int64_t c = 0; c < columns; ++c) out[c] = in[c] - maximum;
  }
}

// exp(x) for x <= 0; values below -87 count as -87. exp(x) = 2^n exp(r), n = round(x / ln 2),
// |r| <= ln 2 / 2. n ln 2 is subtracted in two parts (Cody and Waite 1980); exp(r) is its Taylor series to
// r^7. Adding 1.5 * 2^23 rounds to an integer; the low bits of the sum then contain this integer.
float Exponential(float value) {
  constexpr float kLog2E = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;
  const float x = value < -87.0f ? -87.0f : value;
  const float shifted = x * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = 1.0f / 5040.0f;
  p = p * r + 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const uint32_t power = (__builtin_bit_cast(uint32_t, shifted) << 23) + 0x3f800000u;
  return p * __builtin_bit_cast(float, power);
}

void Exponentials(int64_t count, float* values) {
  for (int64_t i = 0; i < count; ++i) values[i] = Exponential(values[i]);
}

struct ReluFunction {
  static float Value(float x) { return x < 0.0f ? 0.0f : x; }  // Keeps NaN, like the functions below.
  static float Gradient(float y, float dy) { return y > 0.0f ? dy : 0.0f; }
};
struct SameValue {
  static float Value(float x) { return x; }
};

// The compiler vectorises only loops over distinct arrays, so a separate loop handles an array that is
// changed in place.
template <typename Function>
void Add(int64_t count, const float* a, const float* b, float* sum) {
  if (sum == b) b = a, a = sum;
  if (sum == b) {
    for (int64_t i = 0; i < count; ++i) sum[i] = Function::Value(sum[i] + sum[i]);
  } else if (sum == a) {
    const float* __restrict other = b;
    for (int64_t i = 0; i < count; ++i) sum[i] = Function::Value(sum[i] + other[i]);
  } else {
    float* __restrict out = sum;
    for (int64_t i = 0; i < count; ++i) out[i] = Function::Value(a[i] + b[i]);
  }
}

struct Relu6Function {
  static float Value(float x) { return x < 0.0f ? 0.0f : x > 6.0f ? 6.0f : x; }
  static float Gradient(float y, float dy) { return y > 0.0f && y < 6.0f ? dy : 0.0f; }
};
struct SigmoidFunction {
  static float Value(float x) {
    const float e = Exponential(x < 0.0f ? x : -x);
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
  }
  static float Gradient(float y, float dy) { return dy * y * (1.0f - y); }
};
struct TanhFunction {
  // tanh(|x|) = (1 - e) / (1 + e) with e = exp(-2 |x|). For small x, where 1 - e would lose digits, the
  // Taylor series of tanh to x^9 is used.
  static float Value(float x) {
    const float magnitude = x < 0.0f ? -x : x;
    const float e = Exponential(-2.0f * magnitude);
    const float large = (1.0f - e) / (1.0f + e);
    const float square = x * x;
    float p = 62.0f / 2835.0f;
    p = p * square - 17.0f / 315.0f;
    p = p * square + 2.0f / 15.0f;
    p = p * square - 1.0f / 3.0f;
    const float small = x + x * square * p;
    return magnitude < 0.25f ? small : x < 0.0f ? -large : large;
  }
  static float Gradient(float y, float dy) { return dy * (1.0f - y * y); }
};

template <typename Function>
void Activate(int64_t count, const float* x, float* y) {
  if (x == y) {
    for (int64_t i = 0; i < count; ++i) y[i] = Function::Value(y[i]);
  } else {
    float* __restrict out = y;
    for (int64_t i = 0; i < count; ++i) out[i] = Function::Value(x[i]);
  }
}
template <typename Function>
void ActivateBackward(int64_t count, const float* y, const float* dy, float* dx) {
  float* __restrict out = dx;
  if (dy == dx) {
    for (int64_t i = 0; i < count; ++i) out[i] = Function::Gradient(y[i], out[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) out[i] = Function::Gradient(y[i], dy[i]);
  }
}
template <typename Function>
constexpr ActivationLoops LoopsOf() {
  return {Activate<Function>, ActivateBackward<Function>};
}
constexpr ActivationLoops kActivations[] = {LoopsOf<ReluFunction>(), LoopsOf<Relu6Function>(),
                                            LoopsOf<SigmoidFunction>(), LoopsOf<TanhFunction>()};

template <typename T>
void Convert(int64_t count, float scale, float shift, const T* __restrict in, float* __restrict out) {
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(in[i]) * scale + shift;
}

template <typename T>
void ConvertChannels(int64_t count, int64_t period, const float* __restrict scales,
                     const float* __restrict shifts, const T* __restrict in, float* __restrict out) {
  for (int64_t begin = 0; begin < count; begin += period) {
    const int64_t end = count - begin < period ? count - begin : period;
    for (int64_t i = 0; i < end; ++i) {
      out[begin + i] = static_cast<float>(in[begin + i]) * scales[i] + shifts[i];
    }
  }
}

// Rounds to nearest, ties to even: adds 0x7fff and the lowest bit of the upper half, then cuts off the lower
// half. For a NaN, the carry of this addition could make the result zero, so the lower half of a NaN is cut
// off without the addition. The quiet bit is set so that the NaN does not become infinite.
void RoundToBfloat16(int64_t count, const float* __restrict in, Bfloat16* __restrict out) {
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, in[i]);
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    const uint32_t quiet = bits >> 16 | 0x40u;
    out[i] = static_cast<Bfloat16>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
  }
}

void WidenBfloat16(int64_t count, const Bfloat16* __restrict in, float* __restrict out) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = __builtin_bit_cast(float, static_cast<uint32_t>(in[i]) << 16);
  }
}

bool AllFinite(int64_t count, const float* values) {
  // Without the sign bit, the bits of floats are ordered like the magnitudes of the floats, with infinity and
  // NaN last.
  uint32_t largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t magnitude = __builtin_bit_cast(uint32_t, values[i]) & 0x7fffffffu;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest < 0x7f800000u;
}

float UniformAt(PhiloxKey key, uint64_t step, uint64_t position) {
  return ToUnitFloat(Philox4x32(key, position / 4, step).words[position % 4]);
}

void UniformBlocks(PhiloxKey key, uint64_t step, uint64_t first_block, int64_t blocks,
                   float* __restrict out) {
  for (int64_t b = 0; b < blocks; ++b) {
    const PhiloxBlock block = Philox4x32(key, first_block + b, step);
    for (int word = 0; word < 4; ++word) out[4 * b + word] = ToUnitFloat(block.words[word]);
  }
}

// Draws Philox blocks of four numbers; the first and the last block may be partial.
void Uniform(PhiloxKey key, uint64_t step, uint64_t first, int64_t count, float* out) {
  int64_t i = 0;
  for (; i < count && (first + i) % 4 != 0; ++i) out[i] = UniformAt(key, step, first + i);
  const int64_t blocks = (count - i) / 4;
  UniformBlocks(key, step, (first + i) / 4, blocks, out + i);
  for (i += 4 * blocks; i < count; ++i) out[i] = UniformAt(key, step, first + i);
}

void Keep(int64_t count, float rate, float scale, const float* __restrict numbers, const float* in,
          float* out) {
  TETHYS_IN_PLACE
  for (int64_t i = 0; i < count; ++i) out[i] = numbers[i] >= rate ? in[i] * scale : 0.0f;
}

}  // namespace

extern const Kernels TETHYS_KERNELS;
const Kernels TETHYS_KERNELS = {
    .instruction_set = TETHYS_INSTRUCTION_SET,
    .add_bias = AddBias,
    .add_bias_relu = AddBiasRelu,
    .sum_columns = SumColumns,
    .mask_and_sum_columns = MaskAndSumColumns,
    .maximum = Maximum,
    .pool_columns = PoolColumns,
    .unpool_columns = UnpoolColumns,
    .move_where_equal = MoveWhereEqual,
    .average_pool = AveragePool,
    .average_unpool = AverageUnpool,
    .channel_moments = ChannelMoments,
    .normalise = Normalise,
    .normalised_gradient_sums = NormalisedGradientSums,
    .normalised_gradient = NormalisedGradient,
    .add = Add<SameValue>,
    .add_relu = Add<ReluFunction>,
    .activations = kActivations,
    .subtract_row_maximum = SubtractRowMaximum,
    .exponentials = Exponentials,
    .convert_bytes = Convert<uint8_t>,
    .convert_channels = ConvertChannels<uint8_t>,
    .convert_floats = Convert<float>,
    .convert_float_channels = ConvertChannels<float>,
    .round_to_bfloat16 = RoundToBfloat16,
    .widen_bfloat16 = WidenBfloat16,
    .all_finite = AllFinite,
    .sum_of_squares = SumOfSquaresInLanes,
    .updates = UpdateTable<UpdateFormulaList>::kRows,
    .thin_products = kThinProducts,
    .transpose_tiles = TransposeTiles,
    .uniform = Uniform,
    .keep = Keep,
};

}  // namespace tethys::cpu
