// The update in lock step. An element is updated as soon as its gradients from all workers have arrived, so
// that its new value is sent while gradients of other elements still arrive. Both directions of the
// full-duplex link are then used at the same time.
#include <utility>

#include "ps/parameter_store.h"
#include "runtime/strategy.h"

namespace tethys {

absl::Status ParameterStore::UpdateArrived(int worker, Range local, StoreActions& actions) {
  const std::vector<Range> ranges = arrived_.Add(local);
  if (ranges.empty()) return absl::OkStatus();
  if (norms_.holds_back()) return HoldBack(worker, ranges, actions);
  const Frame& push = inboxes_[worker].push;
  absl::StatusOr<Update> update = MakeUpdate(push, rule_->Divisor(all_workers_));
  if (!update.ok()) return Break(update.status(), actions);
  for (const Range& range : ranges) {
    update->part = range;
    if (!gradients_.AddUp(range)) return Break(checks_.NotFinite(push, layout_), actions);
    const absl::Status updated = UpdateRange(*update, actions);
    if (!updated.ok()) return Break(Annotate(updated, checks_.Who(push)), actions);
  }
  return absl::OkStatus();
}

bool ParameterStore::MeasuresNoise() const {
  return all_workers_.size() > 1 && inboxes_[0].push.step % kNoiseSteps == 0;
}

absl::Status ParameterStore::UpdateRange(const Update& update, StoreActions& actions) {
  const Range local = update.part;
  if (updated_ == 0) sum_square_ = 0;
  if (MeasuresNoise()) sum_square_ += SumOfSquares(gradients_.sums() + local.begin, local.count);
  TETHYS_RETURN_IF_ERROR(state_.Apply(update, gradients_.sums()));
  gradients_.Clear(local);
  updated_ += layout_.ElementsIn(local);
  if (config_.copied) actions.Copy(local, version_ + 1);
  if (updated_ < layout_.element_count()) {
    for (const int worker : all_workers_) AnswerUpdated(worker, local, actions);
    return absl::OkStatus();
  }
  updated_ = 0;
  arrived_.Clear();
  CountUpdate(all_workers_, actions);
  if (config_.copied) {
    uncopied_ = local;
  } else {
    EndStep(local, actions);
  }
  return absl::OkStatus();
}

void ParameterStore::OnCopied(int64_t version, StoreActions& actions) {
  if (!lock_step_) return OnPushesCopied(version, actions);
  if (version != version_ || !uncopied_.has_value()) return;
  EndStep(*std::exchange(uncopied_, absl::nullopt), actions);
}

void ParameterStore::EndStep(Range last, StoreActions& actions) {
  for (const int worker : all_workers_) {
    AnswerUpdated(worker, last, actions);
    EndPush(worker, actions);
  }
}

}  // namespace tethys
