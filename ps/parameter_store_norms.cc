// Updates in lock step that are held back until their norms are known (norm_exchange.h). Until then the store
// keeps the gradient sums of all its elements in memory that it needs anyway: the arena of the sums and, with
// ordered summation, the arenas for the pushes of all workers but one. LAMB changes slots when it measures
// variables, so its update begins with the measurement.
#include <utility>

#include "ps/parameter_store.h"

namespace tethys {

absl::Status ParameterStore::HoldBack(int worker, const std::vector<Range>& ranges, StoreActions& actions) {
  int64_t added = 0;
  for (const Range& range : ranges) {
    if (!gradients_.AddUp(range)) return Break(checks_.NotFinite(inboxes_[worker].push, layout_), actions);
    added += layout_.ElementsIn(range);
  }
  if (!norms_.Add(added)) return absl::OkStatus();
  if (norms_.clips()) {
    double sum = 0;
    for (const ShardLayout::Shard& shard : layout_.shards()) {
      sum += SumOfSquares(gradients_.sums() + shard.local.begin, shard.local.count);
    }
    norms_.SetNorm(sum);
  }
  for (PushInbox& inbox : inboxes_) {
    if (!std::exchange(inbox.awaits_norm, false)) continue;
    if (!norms_.clips()) TETHYS_RETURN_IF_ERROR(MeasureHeld(inbox.push, actions));
    const FrameKind kind = norms_.clips() ? FrameKind::kNorm : FrameKind::kMeasure;
    actions.ReplyNorm(norms_.AnswerTo(kind, inbox.push));
  }
  return absl::OkStatus();
}

absl::Status ParameterStore::OnExchange(const Frame& frame, PayloadPieces payload, StoreActions& actions) {
  TETHYS_RETURN_IF_ERROR(norms_.CheckWanted(frame));
  TETHYS_RETURN_IF_ERROR(broken_);
  TETHYS_RETURN_IF_ERROR(Admit(frame));
  PushInbox& inbox = inboxes_[frame.rank];
  TETHYS_ASSIGN_OR_RETURN(const NormExchange::Next next, norms_.Take(frame, payload, inbox));
  if (next == NormExchange::Next::kWait) {
    inbox.awaits_norm = true;
    return absl::OkStatus();
  }
  if (next == NormExchange::Next::kMeasure) TETHYS_RETURN_IF_ERROR(MeasureHeld(frame, actions));
  if (next == NormExchange::Next::kUpdate) TETHYS_RETURN_IF_ERROR(UpdateHeld(frame, actions));
  actions.ReplyNorm(norms_.AnswerTo(frame.kind, frame));
  return absl::OkStatus();
}

absl::StatusOr<Update> ParameterStore::MakeHeldUpdate(const Frame& frame) const {
  TETHYS_ASSIGN_OR_RETURN(Update update, MakeUpdate(inboxes_[frame.rank].push, rule_->Divisor(all_workers_)));
  norms_.Clip(update);
  return update;
}

absl::Status ParameterStore::MeasureHeld(const Frame& frame, StoreActions& actions) {
  if (norms_.is_measured()) return absl::OkStatus();
  absl::StatusOr<Update> update = MakeHeldUpdate(frame);
  if (!update.ok()) return Break(update.status(), actions);
  std::vector<RegionSquares> squares(layout_.shards().size());
  const absl::Status measured = state_.Measure(*update, gradients_.sums(), absl::MakeSpan(squares));
  if (!measured.ok()) return Break(Annotate(measured, checks_.Who(frame)), actions);
  norms_.SetMeasured(squares);
  return absl::OkStatus();
}

absl::Status ParameterStore::UpdateHeld(const Frame& frame, StoreActions& actions) {
  absl::StatusOr<Update> update = MakeHeldUpdate(frame);
  if (!update.ok()) return Break(update.status(), actions);
  const std::vector<RegionSquares> squares = norms_.End();
  update->squares = squares;
  std::vector<Range> parts;  // A copy, because the update of the last part clears the parts of the inbox.
  for (const PushParts::Part& part : inboxes_[frame.rank].parts.in_order()) parts.push_back(part.local);
  for (const Range& part : parts) {
    update->part = part;
    const absl::Status updated = UpdateRange(*update, actions);
    if (!updated.ok()) return Break(Annotate(updated, checks_.Who(frame)), actions);
  }
  return absl::OkStatus();
}

}  // namespace tethys
