// Stale-synchronous: no worker is ahead of the slowest by more than `bound` steps. With bound 0, all pushes
// of a step make one update, which equals the bulk-synchronous update.
#include "runtime/consistency/bounded_rule.h"

namespace tethys {
namespace {

class StaleSynchronousRule : public BoundedRule {
 public:
  StaleSynchronousRule(const proto::StaleSynchronous& config, int workers, int64_t global_batch)
      : BoundedRule(workers, config.gradient_scale() == proto::Asynchronous::PUSH_MEAN, global_batch),
        bound_(static_cast<uint64_t>(config.bound())) {}

 protected:
  uint64_t Lead(uint64_t /*step*/) const override { return bound_; }

 private:
  const uint64_t bound_;
};

}  // namespace

std::unique_ptr<ConsistencyRule> CreateStaleSynchronousRule(const proto::StaleSynchronous& config,
                                                            int workers, int64_t global_batch) {
  return std::make_unique<StaleSynchronousRule>(config, workers, global_batch);
}

}  // namespace tethys
