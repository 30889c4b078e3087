// Asynchronous: each push is applied as an update of its own, as soon as it has arrived. Workers never wait
// for one another.
#include "absl/strings/str_cat.h"
#include "runtime/consistency/rule.h"

namespace tethys {
namespace {

class AsynchronousRule : public ConsistencyRule {
 public:
  AsynchronousRule(const proto::Asynchronous& config, int workers, int64_t global_batch)
      : ConsistencyRule(workers),
        push_mean_(config.gradient_scale() == proto::Asynchronous::PUSH_MEAN),
        global_batch_(global_batch),
        begun_(workers) {
    due_ = {DueUpdate{.workers = {0}}};
  }

  absl::Status Check(const PushedStep& push, uint64_t version) const override {
    // A process may begin with any step: after a resume, or as a replacement of a lost process.
    const uint64_t next = workers_[push.worker].push.step + 1;
    if (begun_[push.worker] && push.step != next) {
      return absl::OutOfRangeError(absl::StrCat("step ", next, " is next"));
    }
    if (push.version > version) {
      return absl::OutOfRangeError(absl::StrCat("its gradients are of version ", push.version,
                                                ", but the parameters' version is ", version));
    }
    if (push.samples == 0) return absl::InvalidArgumentError("an asynchronous push needs a sample");
    return absl::OkStatus();
  }

  int64_t Divisor(absl::Span<const int> workers) const override {
    return push_mean_ ? workers_[workers[0]].push.samples : global_batch_;
  }

  const std::vector<DueUpdate>& Arrived(int worker) override {
    workers_[worker].arrived = begun_[worker] = true;
    due_[0].workers[0] = worker;
    due_[0].divisor = Divisor(due_[0].workers);
    return due_;
  }

  const std::vector<DueUpdate>& TakesPart(int, bool, uint64_t) override { return none_; }

  void Replaced(int worker) override {
    ConsistencyRule::Replaced(worker);
    begun_[worker] = false;
  }

 private:
  const bool push_mean_;
  const int64_t global_batch_;
  std::vector<bool> begun_;  // True for each worker whose current process has pushed.
  const std::vector<DueUpdate> none_;
};

}  // namespace

std::unique_ptr<ConsistencyRule> CreateAsynchronousRule(const proto::Asynchronous& config, int workers,
                                                        int64_t global_batch) {
  return std::make_unique<AsynchronousRule>(config, workers, global_batch);
}

}  // namespace tethys
