// The order of an epoch: a pure map from positions to samples. Ledger, leases, journal and resume know
// positions only, so they are the same for every order. Used by trainers, loaders and reports.
#ifndef TETHYS_RUNTIME_DATA_EPOCH_ORDER_H_
#define TETHYS_RUNTIME_DATA_EPOCH_ORDER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/data/sample_queues.h"
#include "runtime/data/sharding.h"
#include "runtime/data/shuffle.h"

namespace tethys {

// All that an epoch's order depends on, besides its number.
struct OrderRules {
  uint64_t seed = 0;
  int64_t samples = 0;  // The number of samples of the training split.
  ShuffleRules shuffle = {};
  Sharding sharding = Sharding::kGlobal;
  std::vector<int64_t> file_samples = {};  // With kFile: the number of samples of each file.
  // The rank of each position. There are as many positions as samples or, with kOff, as many as samples times
  // ranks.
  RankSplit split = RankSplit::OfSteps(0, 1, 1);
};

// Immutable, thread-safe.
class EpochOrder {
 public:
  // Up to this number of positions, a full shuffle is held in memory; beyond, each element is computed when
  // it is read.
  static constexpr int64_t kMostHeld = int64_t{1} << 20;
  // The memory of a full shuffle of an epoch with this many positions, if one process uses all of them.
  static int64_t BytesHeld(int64_t positions) {
    return positions > kMostHeld ? 0 : positions * static_cast<int64_t>(sizeof(uint32_t));
  }

  // A full shuffle, not sharded. Requires 0 <= samples <= 2^41.
  EpochOrder(uint64_t seed, int64_t epoch, int64_t samples);
  // `queues` must be the result of QueuesOf(rules).
  EpochOrder(const OrderRules& rules, std::shared_ptr<const SampleQueues> queues, int64_t epoch);

  // The number of positions.
  int64_t size() const { return queues_->positions(); }
  // The number of samples. Over all positions, every sample occurs once or, with kOff, once per rank.
  int64_t samples() const { return queues_->samples(); }
  // The sample at a position. Requires 0 <= position < size().
  int64_t operator[](int64_t position) const {
    const SampleQueues::Entry entry = queues_->EntryAt(position);
    return queues_->SampleAt({entry.queue, (*shuffles_[entry.queue])[entry.index]});
  }
  // The position counted from the start of the job, if each epoch has size() positions.
  int64_t JobPositionOf(int64_t position) const { return epoch_ * size() + position; }
  // If the order of a queue is to be held in memory, computes it now. Without this call, the first use of the
  // order computes it.
  void Hold(int64_t queue) const { shuffles_[queue]->Hold(); }

 private:
  const int64_t epoch_;
  const std::shared_ptr<const SampleQueues> queues_;
  std::vector<std::unique_ptr<const ShuffledQueue>> shuffles_;  // The shuffled order of each queue.
};

std::shared_ptr<const SampleQueues> QueuesOf(const OrderRules& rules);

// Holds the order of one epoch at a time, and computes a new one when another epoch is requested. Not
// thread-safe.
class EpochOrders {
 public:
  // `rank`: the rank that uses the orders.
  explicit EpochOrders(const OrderRules& rules, int64_t rank = 0);

  // Releases the previous order first, so that two orders are in memory only if a caller still holds the
  // previous one.
  std::shared_ptr<const EpochOrder> Of(int64_t epoch);

 private:
  const OrderRules rules_;
  const std::shared_ptr<const SampleQueues> queues_;
  const int64_t home_;  // The queue that belongs to `rank`.
  int64_t epoch_ = 0;
  std::shared_ptr<const EpochOrder> order_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_EPOCH_ORDER_H_
