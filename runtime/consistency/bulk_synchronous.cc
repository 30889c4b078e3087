// Bulk-synchronous: step t turns version t of the parameters into version t + 1, with one push of every
// worker.
#include <numeric>

#include "absl/strings/str_cat.h"
#include "runtime/consistency/rule.h"

namespace tethys {
namespace {

class BulkSynchronousRule : public ConsistencyRule {
 public:
  explicit BulkSynchronousRule(int workers) : ConsistencyRule(workers), all_(workers) {
    std::iota(all_.begin(), all_.end(), 0);
  }

  bool lock_step() const override { return true; }

  absl::Status Check(const PushedStep& push, uint64_t version) const override {
    if (push.step != version) return absl::OutOfRangeError(absl::StrCat("step ", version, " is next"));
    if (push.version != version) {
      return absl::OutOfRangeError(absl::StrCat("its gradients are of version ", push.version,
                                                ", but the parameters' version is ", version));
    }
    for (const Worker& other : workers_) {
      if (!other.open || other.push.position == push.position) continue;
      return absl::InvalidArgumentError(absl::StrCat("the schedule position of this push is sample ",
                                                     push.position,
                                                     ", but the position of the worker of rank ",
                                                     other.push.worker, " is sample ", other.push.position));
    }
    return absl::OkStatus();
  }

  int64_t Divisor(absl::Span<const int> workers) const override {
    int64_t samples = 0;
    for (const int worker : workers) samples += workers_[worker].push.samples;
    return samples;
  }

  const std::vector<DueUpdate>& Arrived(int worker) override {
    workers_[worker].arrived = true;
    due_.clear();
    if (++arrived_ < workers_.size()) return due_;
    arrived_ = 0;
    due_.push_back({all_, Divisor(all_)});
    return due_;
  }

 private:
  std::vector<int> all_;
  size_t arrived_ = 0;  // The number of workers whose push of the current step has arrived.
};

}  // namespace

std::unique_ptr<ConsistencyRule> CreateBulkSynchronousRule(int workers) {
  return std::make_unique<BulkSynchronousRule>(workers);
}

}  // namespace tethys
