#include "runtime/base/interruption.h"

#include <algorithm>
#include <utility>

namespace tethys {

void Interruption::Raise(const absl::Status& status) {
  TETHYS_CHECK(!status.ok(), "an interruption needs an error");
  MutexLock lock(mu_);
  if (!status_.ok()) return;
  status_ = status;
  raised_.store(true, std::memory_order_release);
  for (const Watch* const watch : watches_) watch->raised_(status_);
}

absl::Status Interruption::Check() const {
  if (!raised_.load(std::memory_order_acquire)) return absl::OkStatus();
  MutexLock lock(mu_);
  return status_;
}

Interruption::Watch::Watch(Interruption* interruption, std::function<void(const absl::Status&)> raised)
    : interruption_(interruption), raised_(std::move(raised)) {
  if (interruption_ == nullptr) return;
  MutexLock lock(interruption_->mu_);
  interruption_->watches_.push_back(this);
  if (!interruption_->status_.ok()) raised_(interruption_->status_);
}

Interruption::Watch::~Watch() {
  if (interruption_ == nullptr) return;
  MutexLock lock(interruption_->mu_);
  std::erase(interruption_->watches_, this);
}

}  // namespace tethys
