// The products of dense layers with many weights and few rows, a part of kernels.cc, which is compiled once
// per instruction set. Included by kernels.cc only. The loops are in an anonymous namespace, so that the
// linker does not replace a loop by the same loop for another instruction set.
//
// A general product first packs the weights, which takes longer than using them a few times. These loops read
// or write each weight once, in order, for all rows.
#ifndef TETHYS_RUNTIME_DEVICE_CPU_THIN_PRODUCT_LOOPS_H_
#define TETHYS_RUNTIME_DEVICE_CPU_THIN_PRODUCT_LOOPS_H_

#include "runtime/device/cpu/kernels.h"

namespace tethys::cpu {
namespace {

// kThinColumns is the number of columns whose sums stay in the second-level cache. kThinPart is the number of
// columns whose sums stay in the first-level cache while the weights of kThinTerms terms are used.
constexpr int64_t kThinColumns = 4096;
constexpr int64_t kThinPart = 256;
constexpr int64_t kThinTerms = 8;

// y[r, c] += the sum over k < kThinTerms of x[r, k] weights[k, c], for c < columns.
template <int kRows>
void AddThinTerms(int64_t columns, int64_t in, int64_t out, const float* x, const float* weights, float* y) {
  const float *w0 = weights, *w1 = w0 + out, *w2 = w1 + out, *w3 = w2 + out;
  const float *w4 = w3 + out, *w5 = w4 + out, *w6 = w5 + out, *w7 = w6 + out;
  for (int64_t begin = 0; begin < columns; begin += kThinPart) {
    const int64_t end = begin + kThinPart < columns ? begin + kThinPart : columns;
    for (int r = 0; r < kRows; ++r) {
      const float* factors = x + r * in;
      const float x0 = factors[0], x1 = factors[1], x2 = factors[2], x3 = factors[3];
      const float x4 = factors[4], x5 = factors[5], x6 = factors[6], x7 = factors[7];
      float* __restrict sums = y + r * out;
      for (int64_t c = begin; c < end; ++c) {
        sums[c] += ((x0 * w0[c] + x1 * w1[c]) + (x2 * w2[c] + x3 * w3[c])) +
                   ((x4 * w4[c] + x5 * w5[c]) + (x6 * w6[c] + x7 * w7[c]));
      }
    }
  }
}

template <int kRows>
void ThinForward(int64_t in, int64_t out, const float* x, const float* weights, float* y) {
  for (int64_t i = 0; i < kRows * out; ++i) y[i] = 0.0f;
  for (int64_t begin = 0; begin < out; begin += kThinColumns) {
    const int64_t columns = out - begin < kThinColumns ? out - begin : kThinColumns;
    const float* block = weights + begin;
    float* __restrict sums = y + begin;
    int64_t k = 0;
    for (; k + kThinTerms <= in; k += kThinTerms) {
      AddThinTerms<kRows>(columns, in, out, x + k, block + k * out, sums);
    }
    for (; k < in; ++k) {
      for (int r = 0; r < kRows; ++r) {
        const float factor = x[r * in + k];
        for (int64_t c = 0; c < columns; ++c) sums[r * out + c] += factor * block[k * out + c];
      }
    }
  }
}

// Computes dx[r, k] for `kTerms` values of k at once, so that dy is read less often.
template <int kRows, int kTerms>
void ThinDataTerms(int64_t in, int64_t out, const float* dy, const float* weights, float* dx) {
  constexpr int kLanes = 8;
  float sums[kTerms][kRows][kLanes] = {};
  int64_t c = 0;
  for (; c + kLanes <= out; c += kLanes) {
    for (int r = 0; r < kRows; ++r) {
      for (int k = 0; k < kTerms; ++k) {
        for (int lane = 0; lane < kLanes; ++lane) {
          sums[k][r][lane] += dy[r * out + c + lane] * weights[k * out + c + lane];
        }
      }
    }
  }
  for (int k = 0; k < kTerms; ++k) {
    for (int r = 0; r < kRows; ++r) {
      float sum = 0.0f;
      for (const float lane : sums[k][r]) sum += lane;
      for (int64_t rest = c; rest < out; ++rest) sum += dy[r * out + rest] * weights[k * out + rest];
      dx[r * in + k] = sum;
    }
  }
}

template <int kRows>
void ThinDataGradient(int64_t in, int64_t out, const float* dy, const float* weights, float* dx) {
  constexpr int kTerms = kRows <= 2 ? 4 : 2;  // As many sums as fit into registers.
  int64_t k = 0;
  for (; k + kTerms <= in; k += kTerms) {
    ThinDataTerms<kRows, kTerms>(in, out, dy, weights + k * out, dx + k);
  }
  for (; k < in; ++k) ThinDataTerms<kRows, 1>(in, out, dy, weights + k * out, dx + k);
}

template <int kRows>
void ThinWeightGradient(int64_t in, int64_t out, const float* x, const float* dy, float* dweights) {
  for (int64_t k = 0; k < in; ++k) {
    float factors[kRows];
    for (int r = 0; r < kRows; ++r) factors[r] = x[r * in + k];
    float* __restrict row = dweights + k * out;
    for (int64_t c = 0; c < out; ++c) {
      float sum = factors[0] * dy[c];
      for (int r = 1; r < kRows; ++r) sum += factors[r] * dy[r * out + c];
      row[c] = sum;
    }
  }
}

template <int kRows>
constexpr ThinProducts kThin = {ThinForward<kRows>, ThinDataGradient<kRows>, ThinWeightGradient<kRows>};
constexpr ThinProducts kThinProducts[kMostThinRows] = {kThin<1>, kThin<2>, kThin<3>, kThin<4>};

}  // namespace
}  // namespace tethys::cpu

#endif  // TETHYS_RUNTIME_DEVICE_CPU_THIN_PRODUCT_LOOPS_H_
