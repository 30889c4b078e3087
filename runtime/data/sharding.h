// Decides which worker trains on which samples. This is pure arithmetic, with the same results on the chief
// and on every worker. The order of an epoch is a permutation of its samples. A step is a slice of positions
// in that order, and a worker's batch is a slice of the step's slice.
#ifndef TETHYS_RUNTIME_DATA_SHARDING_H_
#define TETHYS_RUNTIME_DATA_SHARDING_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/random.h"

namespace tethys {

// Positions [begin, end) of an epoch's order; without an order, samples [begin, end).
struct Slice {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t count() const { return end - begin; }
  bool operator==(const Slice&) const = default;
};

// The order in which an epoch visits its samples: a function of (seed, epoch) only. Immutable, thread-safe.
class EpochOrder {
 public:
  // Up to this number of samples the order is held in memory; beyond, each element is computed when it is
  // asked for.
  static constexpr int64_t kMostHeld = int64_t{1} << 26;
  // The memory of an order.
  static int64_t BytesHeld(int64_t samples) {
    return samples > kMostHeld ? 0 : samples * static_cast<int64_t>(sizeof(uint32_t));
  }

  // Requires 0 <= samples <= 2^62.
  EpochOrder(uint64_t seed, int64_t epoch, int64_t samples);

  int64_t size() const { return size_; }
  // The sample at a position. Requires 0 <= position < size().
  int64_t operator[](int64_t position) const {
    return size_ > kMostHeld ? computed_[position] : held_[position];
  }
  // The position counted from the start of the job, if each epoch has size() positions.
  int64_t JobPositionOf(int64_t position) const { return epoch_ * size() + position; }

 private:
  const int64_t epoch_;
  const int64_t size_;
  const KeyedPermutation computed_;
  const std::vector<uint32_t> held_;  // Empty beyond kMostHeld.
};

// Holds the order of one epoch at a time, and computes a new one when another epoch is requested. Not
// thread-safe.
class EpochOrders {
 public:
  // `seed` and `samples` are those of EpochOrder.
  EpochOrders(uint64_t seed, int64_t samples) : seed_(seed), samples_(samples) {}

  // Releases the previous order first, so that two orders are in memory only if a caller still holds the
  // previous one.
  std::shared_ptr<const EpochOrder> Of(int64_t epoch) {
    if (order_ == nullptr || epoch != epoch_) {
      order_ = nullptr;
      order_ = std::make_shared<const EpochOrder>(seed_, epoch, samples_);
      epoch_ = epoch;
    }
    return order_;
  }

 private:
  const uint64_t seed_;
  const int64_t samples_;
  int64_t epoch_ = 0;
  std::shared_ptr<const EpochOrder> order_;
};

// Part number `rank` of `world` contiguous parts of `whole`; the first (count mod world) parts have one more
// sample. Requires world >= 1 and 0 <= rank < world.
Slice SplitSlice(Slice whole, int64_t rank, int64_t world);

// The number of steps in an epoch of `samples` samples, with `global_batch` samples per step. A short last
// batch counts unless it is dropped.
int64_t StepsPerEpoch(int64_t samples, int64_t global_batch, bool drop_remainder);
// The number of samples that an epoch uses: all, or only those in full batches.
int64_t SamplesPerEpoch(int64_t samples, int64_t global_batch, bool drop_remainder);

// The positions that all workers together use in a step of an epoch. The epoch's last step may have fewer
// than global_batch. Requires 0 <= step_in_epoch < StepsPerEpoch.
Slice StepSlice(int64_t samples, int64_t global_batch, int64_t step_in_epoch);
// The positions that one worker uses in such a step, possibly none.
Slice StepSlice(int64_t samples, int64_t global_batch, int64_t step_in_epoch, int64_t rank, int64_t world);

// The samples that one worker evaluates, in natural order.
Slice EvaluationSlice(int64_t samples, int64_t rank, int64_t world);

// Converts a position in an epoch to a position counted from the start of the job.
constexpr int64_t JobPosition(int64_t epoch, int64_t samples_per_epoch, int64_t position) {
  return epoch * samples_per_epoch + position;
}

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_SHARDING_H_
