#include "runtime/device/cpu/filter_packing.h"

#include <algorithm>

#include "runtime/device/cpu/onednn.h"
#include "runtime/device/cpu/parallel.h"

namespace tethys::cpu {

std::optional<FilterPacking> FilterPacking::Of(const dnnl::memory::desc& packed) {
  constexpr int kOut = 0, kIn = 1, kHeight = 2, kWidth = 3, kAxes = 4;
  const std::optional<BlockedLayout> layout = BlockedLayoutOf(packed);
  if (!layout.has_value() || layout->axes.size() != kAxes) return std::nullopt;
  const dnnl::memory::dims &axes = layout->axes, &strides = layout->strides;
  FilterPacking packing;
  packing.out_ = axes[kOut], packing.in_ = axes[kIn];
  packing.height_ = axes[kHeight], packing.width_ = axes[kWidth];
  packing.next_block_ = strides[kOut];
  packing.next_row_ = strides[kHeight], packing.next_column_ = strides[kWidth];
  if (packing.out_ % kTile != 0 || packing.in_ % kTile != 0 || layout->padded_axes[kIn] != packing.in_) {
    return std::nullopt;
  }
  const dnnl::memory::dims &blocks = layout->inner_blocks, &cut = layout->inner_axes;
  if (cut == dnnl::memory::dims{kOut} && blocks[0] % kTile == 0) {
    packing.block_ = blocks[0];
    packing.next_in_ = strides[kIn];
    packing.next_tile_ = kTile * packing.next_in_;
    return packing;
  }
  if (cut == dnnl::memory::dims{kIn, kOut} && blocks == dnnl::memory::dims{kTile, kTile}) {
    packing.block_ = kTile;
    packing.next_in_ = kTile;
    packing.next_tile_ = strides[kIn];
    return packing;
  }
  return std::nullopt;
}

// Calls move(offset in the plain order, offset in the packed order) for each tap and each tile of the axis
// `out`. One call moves all tiles of the axis `in`.
template <typename Move>
void FilterPacking::ForEachRow(int threads, const Move& move) const {
  const int64_t taps = height_ * width_;
  const int64_t least = std::max<int64_t>(1, kLeastElements / (kTile * in_));
  ForEachPart(threads, out_ / kTile * taps, least, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t out = i / taps * kTile, tap = i % taps;
      move((out * taps + tap) * in_, out / block_ * next_block_ + out % block_ + tap / width_ * next_row_ +
                                         tap % width_ * next_column_);
    }
  });
}

void FilterPacking::Pack(const Kernels& kernels, int threads, const float* plain, float* packed) const {
  const int64_t row = height_ * width_ * in_;
  ForEachRow(threads, [&](int64_t from, int64_t to) {
    kernels.transpose_tiles(in_ / kTile, plain + from, row, kTile, packed + to, next_in_, next_tile_);
  });
  const int64_t beyond = out_ % block_;
  if (beyond == 0) return;
  float* const last = packed + out_ / block_ * next_block_;
  for (int64_t tap = 0; tap < height_ * width_; ++tap) {
    float* const values = last + tap / width_ * next_row_ + tap % width_ * next_column_;
    for (int64_t in = 0; in < in_; ++in) {
      std::fill(values + in * next_in_ + beyond, values + in * next_in_ + block_, 0.0f);
    }
  }
}

void FilterPacking::Unpack(const Kernels& kernels, int threads, const float* packed, float* plain) const {
  const int64_t row = height_ * width_ * in_;
  ForEachRow(threads, [&](int64_t to, int64_t from) {
    kernels.transpose_tiles(in_ / kTile, packed + from, next_in_, next_tile_, plain + to, row, kTile);
  });
}

}  // namespace tethys::cpu
