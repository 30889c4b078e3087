#include "runtime/data/epoch_order.h"

#include <algorithm>
#include <utility>

namespace tethys {
namespace {

OrderRules FullShuffle(uint64_t seed, int64_t samples) {
  return {.seed = seed, .samples = samples, .split = RankSplit::OfSteps(samples, 1, 1)};
}

}  // namespace

EpochOrder::EpochOrder(uint64_t seed, int64_t epoch, int64_t samples)
    : EpochOrder(FullShuffle(seed, samples), QueuesOf(FullShuffle(seed, samples)), epoch) {
  Hold(0);
}

EpochOrder::EpochOrder(const OrderRules& rules, std::shared_ptr<const SampleQueues> queues, int64_t epoch)
    : epoch_(epoch), queues_(std::move(queues)) {
  const bool sharded = rules.sharding != Sharding::kGlobal;
  for (int64_t queue = 0; queue < queues_->queues(); ++queue) {
    shuffles_.push_back(std::make_unique<const ShuffledQueue>(rules.shuffle, rules.seed, epoch,
                                                              sharded ? queue + 1 : 0, queues_->SizeOf(queue),
                                                              queues_->positions() <= kMostHeld));
  }
}

std::shared_ptr<const SampleQueues> QueuesOf(const OrderRules& rules) {
  return std::make_shared<const SampleQueues>(rules.sharding, rules.samples, rules.file_samples, rules.split);
}

EpochOrders::EpochOrders(const OrderRules& rules, int64_t rank)
    : rules_(rules), queues_(QueuesOf(rules)), home_(std::min(rank, queues_->queues() - 1)) {}

std::shared_ptr<const EpochOrder> EpochOrders::Of(int64_t epoch) {
  if (order_ == nullptr || epoch != epoch_) {
    order_ = nullptr;
    order_ = std::make_shared<const EpochOrder>(rules_, queues_, epoch);
    order_->Hold(home_);
    epoch_ = epoch;
  }
  return order_;
}

}  // namespace tethys
