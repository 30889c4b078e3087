// All-gather of small values, such as the address of each rank's memory. It uses one all-reduce, so that
// forming a communicator of n ranks takes one collective and not n broadcasts.
//
// Blocks like the communicator's all-reduce. Every rank calls it at the same time.
#ifndef TETHYS_COLLECTIVES_ALL_GATHER_H_
#define TETHYS_COLLECTIVES_ALL_GATHER_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "collectives/communicator.h"

namespace tethys {

// Returns the `own` of every rank, indexed by rank, with unchanged bits. The reduced vector has a slot for
// each rank, which the other ranks leave zero. Each float holds 16 bits as an integer: adding zeros keeps
// such a float exact, while raw bits taken as a float might be a NaN or a denormal.
template <typename T>
absl::StatusOr<std::vector<T>> AllGather(Communicator& all, const T& own) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(uint16_t) == 0);
  constexpr size_t kSlot = sizeof(T) / sizeof(uint16_t);
  uint16_t halves[kSlot];
  std::memcpy(halves, &own, sizeof(T));
  std::vector<float> slots(kSlot * all.world_size(), 0.0f);
  std::copy_n(halves, kSlot, slots.begin() + static_cast<int64_t>(kSlot) * all.rank());
  TETHYS_RETURN_IF_ERROR(all.AllReduce(absl::MakeSpan(slots)));
  std::vector<T> values(all.world_size());
  for (size_t rank = 0; rank < values.size(); ++rank) {
    std::transform(slots.begin() + kSlot * rank, slots.begin() + kSlot * (rank + 1), halves,
                   [](float half) { return static_cast<uint16_t>(half); });
    std::memcpy(&values[rank], halves, sizeof(T));
  }
  return values;
}

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_ALL_GATHER_H_
