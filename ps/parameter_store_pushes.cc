// Updates of whole pushes. Each push is kept until the rule of the consistency says that it is due. The
// updates that are due at one time are made in the rule's order, and their pushes are answered when all are
// made, so that every worker goes on with the newest parameters. If only one push is due, its parts are
// answered one by one, so that the first parts are sent while the rest is still being computed.
#include "ps/parameter_store.h"

namespace tethys {

absl::Status ParameterStore::GoOn(const std::vector<DueUpdate>& due, StoreActions& actions) {
  const bool answer_parts = due.size() == 1 && due[0].workers.size() == 1;
  std::vector<bool> goes_on(inboxes_.size(), false);
  for (const DueUpdate& update : due) {
    TETHYS_RETURN_IF_ERROR(ApplyTogether(update, answer_parts, actions));
    for (const int worker : update.workers) goes_on[worker] = true;
  }
  for (const int worker : all_workers_) {
    AnswerPulls(worker, actions);
    if (goes_on[worker]) EndPush(worker, actions);
  }
  return absl::OkStatus();
}

absl::Status ParameterStore::ApplyTogether(const DueUpdate& due, bool answer_parts, StoreActions& actions) {
  if (due.divisor == 0) {  // Steps without samples change nothing.
    for (const int worker : due.workers) NoteApplied(inboxes_[worker].Apply(version_, 0), actions);
    return absl::OkStatus();
  }
  int failed = 0;
  const float* const sums = gradients_.AddTogether(due.workers, failed);
  if (sums == nullptr) return Break(checks_.NotFinite(inboxes_[failed].push, layout_), actions);
  PushInbox& last = inboxes_[due.workers.back()];
  absl::StatusOr<Update> update = MakeUpdate(last.push, due.divisor);
  if (!update.ok()) return Break(update.status(), actions);
  CountUpdate(due.workers, actions);
  for (const PushParts::Part& part : last.parts.in_order()) {
    update->part = part.local;
    const absl::Status updated = state_.Apply(*update, sums);
    if (!updated.ok()) return Break(Annotate(updated, checks_.Who(last.push)), actions);
    if (answer_parts) AnswerUpdated(due.workers[0], part.local, actions);
  }
  return absl::OkStatus();
}

}  // namespace tethys
