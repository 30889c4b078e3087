#include "runtime/consistency/bounded_rule.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tethys {

BoundedRule::BoundedRule(int workers, bool push_mean, int64_t global_batch)
    : ConsistencyRule(workers),
      push_mean_(push_mean),
      global_batch_(global_batch),
      clocks_(workers, 0),
      takes_part_(workers, true) {}

absl::Status BoundedRule::Check(const PushedStep& push, uint64_t version) const {
  const uint64_t next = clocks_[push.worker];
  if (push.step < next) return absl::OutOfRangeError(absl::StrCat("step ", next, " is next"));
  if (push.version > version) {
    return absl::OutOfRangeError(absl::StrCat("its gradients are of version ", push.version,
                                              ", but the parameters' version is ", version));
  }
  if (push.global_samples < push.samples || push.global_samples > global_batch_) {
    return absl::InvalidArgumentError(absl::StrCat("the push of ", push.samples,
                                                   " samples states a global batch of ", push.global_samples,
                                                   ", but the global batch of the job is ", global_batch_));
  }
  return absl::OkStatus();
}

bool BoundedRule::Allows(uint64_t step) const {
  const uint64_t lead = Lead(step);
  return step <= lead || step - lead <= slowest_;
}

bool BoundedRule::MayBegin(int worker, uint64_t step) const { return !takes_part_[worker] || Allows(step); }

int64_t BoundedRule::Divisor(absl::Span<const int> workers) const {
  const PushedStep& push = workers_[workers[0]].push;
  return push_mean_ ? push.samples : push.global_samples;
}

const std::vector<DueUpdate>& BoundedRule::Arrived(int worker) {
  workers_[worker].arrived = true;
  clocks_[worker] = workers_[worker].push.step + 1;
  return Due();
}

const std::vector<DueUpdate>& BoundedRule::TakesPart(int worker, bool takes_part, uint64_t clock) {
  takes_part_[worker] = takes_part;
  clocks_[worker] = std::max(clocks_[worker], clock);
  return Due();
}

const std::vector<DueUpdate>& BoundedRule::Due() {
  slowest_ = UINT64_MAX;
  for (size_t worker = 0; worker < clocks_.size(); ++worker) {
    if (takes_part_[worker]) slowest_ = std::min(slowest_, clocks_[worker]);
  }
  going_.clear();
  for (size_t worker = 0; worker < clocks_.size(); ++worker) {
    if (workers_[worker].arrived && Allows(clocks_[worker])) going_.push_back(static_cast<int>(worker));
  }
  std::stable_sort(going_.begin(), going_.end(),
                   [this](int a, int b) { return workers_[a].push.position < workers_[b].push.position; });
  due_.clear();
  bool any_samples = false;
  for (const int worker : going_) {
    const PushedStep& push = workers_[worker].push;
    const bool together =
        !push_mean_ && !due_.empty() && workers_[due_.back().workers[0]].push.position == push.position;
    if (!together) {
      due_.emplace_back();
      any_samples = false;
    }
    due_.back().workers.push_back(worker);
    any_samples |= push.samples > 0;
    due_.back().divisor = any_samples ? Divisor(due_.back().workers) : 0;
  }
  return due_;
}

}  // namespace tethys
