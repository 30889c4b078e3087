#include "workers/group_interruption.h"

#include <algorithm>

namespace tethys {
namespace {

absl::Status Halted() { return absl::AbortedError("the chief halted the group of workers"); }

}  // namespace

void GroupInterruption::OnHalt(uint32_t generation) {
  MutexLock lock(mu_);
  halted_ = std::max(halted_, generation);
  if (current_ != nullptr && generation >= generation_) current_->Raise(Halted());
}

Interruption& GroupInterruption::Begin(uint32_t generation) {
  MutexLock lock(mu_);
  generation_ = generation;
  current_ = std::make_unique<Interruption>();
  if (halted_ >= generation) current_->Raise(Halted());
  return *current_;
}

absl::Status GroupInterruption::Check() const {
  MutexLock lock(mu_);
  return current_ == nullptr ? absl::OkStatus() : current_->Check();
}

}  // namespace tethys
