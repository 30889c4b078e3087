#include "ps/pushed_gradients.h"

#include <algorithm>

namespace tethys {

PushedGradients::PushedGradients(int workers, Summation summation)
    : summation_(summation), pushes_(workers) {}

std::vector<Arena*> PushedGradients::arenas() {
  std::vector<Arena*> arenas;
  if (summation_ != Summation::kWhole) arenas.push_back(&sum_);
  if (summation_ == Summation::kByArrival) return arenas;
  for (size_t worker = summation_ == Summation::kByRank ? 1 : 0; worker < pushes_.size(); ++worker) {
    arenas.push_back(&pushes_[worker].values);
  }
  return arenas;
}

bool PushedGradients::Take(int worker, bool has_samples, Range local, PayloadPieces payload) {
  Push& push = pushes_[worker];
  push.has_samples = has_samples;
  if (summation_ == Summation::kByArrival) {
    return !has_samples || AddPayload(payload, local.count, sum_.data() + local.begin);
  }
  const bool begins_sum = summation_ == Summation::kByRank && worker == 0;
  if (has_samples) {
    return CopyPayload(payload, local.count, (begins_sum ? sum_ : push.values).data() + local.begin);
  }
  if (begins_sum) std::fill_n(sum_.data() + local.begin, local.count, 0.0f);
  return true;
}

bool PushedGradients::AddUp(Range local) {
  if (summation_ != Summation::kByRank) return true;
  for (size_t worker = 1; worker < pushes_.size(); ++worker) {
    const Push& push = pushes_[worker];
    if (!push.has_samples) continue;
    if (!AddValues(push.values.data() + local.begin, local.count, sum_.data() + local.begin)) return false;
  }
  return true;
}

void PushedGradients::Clear(Range local) {
  if (summation_ == Summation::kByArrival) std::fill_n(sum_.data() + local.begin, local.count, 0.0f);
}

void PushedGradients::ForgetAll() {
  Clear({0, sum_.size()});
  for (Push& push : pushes_) push.has_samples = false;
}

const float* PushedGradients::AddTogether(absl::Span<const int> workers, int& failed) {
  Arena* sums = nullptr;
  for (const int worker : workers) {
    Push& push = pushes_[worker];
    if (!push.has_samples) continue;
    if (sums == nullptr) {
      sums = &push.values;
    } else if (!AddValues(push.values.data(), sums->size(), sums->data())) {
      failed = worker;
      return nullptr;
    }
  }
  return sums->data();
}

}  // namespace tethys
