// The order of the samples of one queue in one epoch. A queue is all samples of the training split or, in a
// sharded job, the samples of a rank (sample_queues.h). Pure functions of seed, epoch and queue, so a job can
// resume inside an epoch without the saved state of a shuffle buffer.
#ifndef TETHYS_RUNTIME_DATA_SHUFFLE_H_
#define TETHYS_RUNTIME_DATA_SHUFFLE_H_

#include <cstdint>
#include <vector>

#include "absl/base/call_once.h"
#include "runtime/base/random.h"

namespace tethys {

struct ShuffleRules {
  enum class Kind {
    kFull,    // All samples are shuffled together.
    kBlocks,  // Blocks of consecutive samples are shuffled, then the samples within each window of blocks.
    kNone,    // Natural order.
  };
  Kind kind = Kind::kFull;
  // For kBlocks: the samples of a block, at most 2^40, and the blocks of a window, at most 2^20; both at
  // least 1.
  int64_t block = 1;
  int64_t window = 1;
};

// A permutation of [0, count). Thread-safe.
class ShuffledQueue {
 public:
  // `queue`: the number of the queue; 0 in a job that is not sharded. `held`: a full shuffle is kept in
  // memory from its first use on, four bytes a sample. Otherwise each element is computed when it is read,
  // and the order differs from the order that would be held. Requires 0 <= count <= 2^41 and, if held, count
  // < 2^32.
  ShuffledQueue(const ShuffleRules& rules, uint64_t seed, int64_t epoch, int64_t queue, int64_t count,
                bool held);

  // Requires 0 <= index < count.
  int64_t operator[](int64_t index) const;
  // If the order is held in memory, computes it now. Without this call, the first use of the order computes
  // it.
  void Hold() const;

 private:
  // The sample at `index` in a shuffle of blocks. The blocks lie in slots, in their new order. Only the last
  // block of the queue may be short, and it may lie in any slot.
  int64_t InBlocks(int64_t index) const;
  // The first index of a slot.
  int64_t BeginOf(int64_t slot) const;
  int64_t SlotOf(int64_t index) const;

  const ShuffleRules rules_;
  const int64_t count_;
  const RandomStream stream_;
  const bool held_;
  const int64_t blocks_;  // The number of blocks in a shuffle of blocks, otherwise 1.
  // The permutation of the samples or, in a shuffle of blocks, of the blocks.
  const KeyedPermutation computed_;
  const int64_t short_slot_;  // The slot of the last block.
  const int64_t missing_;     // Samples that the last block lacks, compared with other blocks.
  const uint64_t window_seed_;

  mutable absl::once_flag once_;
  mutable std::vector<uint32_t> order_;  // Written under once_.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_SHUFFLE_H_
