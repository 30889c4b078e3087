// Converts filters between the plain order [out, taps, in] and the packed orders of oneDNN in which blocks of
// out are innermost. oneDNN's own conversion moves single numbers; ours transposes tiles in registers.
#ifndef TETHYS_RUNTIME_DEVICE_CPU_FILTER_PACKING_H_
#define TETHYS_RUNTIME_DEVICE_CPU_FILTER_PACKING_H_

#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>

#include "runtime/device/cpu/kernels.h"

namespace tethys::cpu {

class FilterPacking {
 public:
  // Requires that `packed` is a layout of filters without groups, with axes (out, in, height, width). Returns
  // nullopt if the innermost blocks of the layout are not blocks of out, or if the size of `out` or of `in`
  // is not a multiple of kTile.
  static std::optional<FilterPacking> Of(const dnnl::memory::desc& packed);

  // Packs the filters, and writes zeros into the rest of the packed memory.
  void Pack(const Kernels& kernels, int threads, const float* plain, float* packed) const;
  void Unpack(const Kernels& kernels, int threads, const float* packed, float* plain) const;

 private:
  int64_t out_, in_, height_, width_;
  int64_t block_;  // The number of values of out that lie side by side in the packed order.
  // Distances, in elements of the packed order, to the next block of out, value of in, tile of in, row and
  // column of taps.
  int64_t next_block_, next_in_, next_tile_, next_row_, next_column_;

  template <typename Move>
  void ForEachRow(int threads, const Move& move) const;
};

}  // namespace tethys::cpu

#endif  // TETHYS_RUNTIME_DEVICE_CPU_FILTER_PACKING_H_
