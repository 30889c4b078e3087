// Clipping by global norm in bulk-synchronous training. No server has all gradients of a step, so workers
// carry the sums of their squares from server to server:
//
//   worker                       server
//   kPush, all ranges  ------->  adds up, updates nothing
//   kNorm              ------->  waits for the pushes of all workers
//                      <-------  kNorm: the sum of squares of this server's gradient sums
//   adds the sums of all servers, in the order of servers
//   kCommit: the total ------->  the first one updates the parameters
//                      <-------  kParameters, to every worker, for each range it pushed
//                      <-------  kCommit
//
// Servers give all workers the same sums, so all workers commit the same bits, and every server clips by the
// same factor. A worker pushes the next step when all servers have confirmed its commit, so the sums of a
// step remain known until every worker has used them.
#include <cmath>
#include <cstring>
#include <vector>

#include "ps/parameter_store.h"
#include "runtime/device/norm_formulas.h"

namespace tethys {
namespace {

// Requires a payload of 8 bytes.
double ReadDouble(PayloadPieces pieces) {
  double value = 0;
  char* to = reinterpret_cast<char*>(&value);
  for (const absl::string_view piece : pieces) {
    std::memcpy(to, piece.data(), piece.size());
    to += piece.size();
  }
  return value;
}

}  // namespace

absl::Status ParameterStore::HoldBack(int worker, const std::vector<Range>& ranges, StoreActions& actions) {
  int64_t added = 0;
  for (const Range& range : ranges) {
    if (!SumStaged(range)) return Break(NotFinite(inboxes_[worker].push), actions);
    added += layout_.ElementsIn(range);
  }
  summed_ += added;
  // A range that holds only padding may arrive after the last element.
  if (added == 0 || !HoldsStep()) return absl::OkStatus();
  own_squares_ = 0;
  for (const ShardLayout::Shard& shard : layout_.shards()) {
    own_squares_ += SumOfSquares(sum_.data() + shard.local.begin, shard.local.count);
  }
  for (PushInbox& inbox : inboxes_) {
    if (!inbox.awaits_norm) continue;
    inbox.awaits_norm = false;
    AnswerNorm(FrameKind::kNorm, inbox.push, actions);
  }
  return absl::OkStatus();
}

absl::Status ParameterStore::CheckExchange(const Frame& frame, PayloadPieces payload,
                                           uint64_t payload_bytes) {
  TETHYS_RETURN_IF_ERROR(broken_);
  TETHYS_RETURN_IF_ERROR(Admit(frame));
  if (!clips()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Who(frame), "it exchanges norms, but these servers do not clip gradients"));
  }
  if (frame.dtype != FrameDType::kFloat64 || frame.range_begin != 0 || frame.range_count != 1 ||
      frame.payload_bytes != payload_bytes || PayloadBytes(payload) != static_cast<int64_t>(payload_bytes)) {
    return absl::InvalidArgumentError(absl::StrCat(Who(frame), "expected one sum of squares, in ",
                                                   payload_bytes, " bytes of float64; its message has ",
                                                   PayloadBytes(payload)));
  }
  if (const absl::Status intact = CheckPayload(frame, payload); !intact.ok()) {
    return absl::Status(intact.code(), absl::StrCat(Who(frame), intact.message()));
  }
  const PushInbox& inbox = inboxes_[frame.rank];
  const Frame& push = inbox.push.sequence != 0 ? inbox.push : inbox.applied;
  if (push.sequence == frame.sequence && push.step == frame.step && push.sequence != 0) {
    return absl::OkStatus();
  }
  return absl::OutOfRangeError(absl::StrCat(Who(frame), "it exchanges the norm of push ", frame.sequence,
                                            ", its last push is ", push.sequence, " of step ", push.step));
}

absl::Status ParameterStore::OnNorm(const Frame& frame, PayloadPieces payload, StoreActions& actions) {
  TETHYS_RETURN_IF_ERROR(CheckExchange(frame, payload, 0));
  PushInbox& inbox = inboxes_[frame.rank];
  if (frame.sequence == inbox.push.sequence && !HoldsStep()) {
    inbox.awaits_norm = true;
  } else {
    AnswerNorm(FrameKind::kNorm, frame, actions);
  }
  return absl::OkStatus();
}

absl::Status ParameterStore::OnCommit(const Frame& frame, PayloadPieces payload, StoreActions& actions) {
  TETHYS_RETURN_IF_ERROR(CheckExchange(frame, payload, sizeof(double)));
  const double total = ReadDouble(payload);
  const bool first = frame.sequence == inboxes_[frame.rank].push.sequence;
  if (first && !HoldsStep()) {
    return absl::OutOfRangeError(
        absl::StrCat(Who(frame), "it commits a step whose gradients have not all arrived"));
  }
  if (!std::isfinite(total) || total < own_squares_ || (!first && total != committed_squares_)) {
    return absl::InvalidArgumentError(absl::StrCat(
        Who(frame), "it commits the step with a sum of squares of ", total, ", expected ",
        first ? absl::StrCat("a number not below this server's own sum of ", own_squares_)
              : absl::StrCat(committed_squares_, ", with which another worker has committed it")));
  }
  if (first) TETHYS_RETURN_IF_ERROR(UpdateClipped(static_cast<int>(frame.rank), total, actions));
  AnswerNorm(FrameKind::kCommit, frame, actions);
  return absl::OkStatus();
}

absl::Status ParameterStore::UpdateClipped(int worker, double sum_of_squares, StoreActions& actions) {
  const Frame push = inboxes_[worker].push;
  absl::StatusOr<Update> update = MakeUpdate(push, SamplesOfStep());
  if (!update.ok()) return Break(update.status(), actions);
  update->gradient_scale =
      ClippedScale(static_cast<float>(update->gradient_scale), sum_of_squares, config_.clip_norm);
  summed_ = 0;
  committed_squares_ = sum_of_squares;
  std::vector<Range> parts;  // A copy, since the last update forgets the pushes.
  for (const PushParts::Part& part : inboxes_[worker].parts.in_order()) parts.push_back(part.local);
  for (const Range& part : parts) {
    update->part = part;
    const absl::Status updated = UpdateRange(*update, actions);
    if (!updated.ok()) return Break(Annotate(updated, Who(push)), actions);
  }
  return absl::OkStatus();
}

void ParameterStore::AnswerNorm(FrameKind kind, const Frame& push, StoreActions& actions) const {
  actions.ReplyNorm({.kind = kind,
                     .worker = static_cast<int>(push.rank),
                     .sequence = push.sequence,
                     .step = push.step,
                     .sum_of_squares = own_squares_});
}

}  // namespace tethys
