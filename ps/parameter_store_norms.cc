// Updates in lock step that depend on norms: clipping by global norm, and the trust ratios of LARS and
// LAMB. No server has all gradients of a step, nor whole variables, so workers carry sums of squares from
// server to server:
//
//   worker                        server
//   kPush, all ranges   ------->  adds up, updates nothing
//   kNorm               ------->  waits for the pushes of all workers
//                       <-------  kNorm: the sum of squares of this server's gradient sums
//   kMeasure: the total ------->  measures with the clipped gradients
//                       <-------  kMeasure: two sums of squares for each shard (RegionSquares)
//   kCommit: the totals ------->  the first one updates the parameters
//                       <-------  kParameters, to every worker, for each range it pushed
//                       <-------  kCommit
//
// Without trust ratios kMeasure is left out, and kCommit brings the total of kNorm. Without clipping kNorm is
// left out, kMeasure brings nothing, and waits for the pushes. A worker adds the sums of all servers in the
// order of servers. Servers give all workers the same sums, so all workers send the same totals, and every
// server scales alike. A worker pushes the next step when all servers have confirmed its commit, so the sums
// of a step remain known until every worker has used them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "ps/parameter_store.h"
#include "runtime/device/norm_formulas.h"

namespace tethys {
namespace {

constexpr size_t kSumsOfShard = sizeof(RegionSquares) / sizeof(double);

// Requires a payload of whole values.
std::vector<double> ReadDoubles(PayloadPieces pieces) {
  std::vector<double> values(static_cast<size_t>(PayloadBytes(pieces)) / sizeof(double));
  char* to = reinterpret_cast<char*>(values.data());
  for (const absl::string_view piece : pieces) to = std::copy(piece.begin(), piece.end(), to);
  return values;
}

bool SameBits(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  return a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

}  // namespace

absl::Status ParameterStore::HoldBack(int worker, const std::vector<Range>& ranges, StoreActions& actions) {
  int64_t added = 0;
  for (const Range& range : ranges) {
    if (!SumStaged(range)) return Break(NotFinite(inboxes_[worker].push), actions);
    added += layout_.ElementsIn(range);
  }
  held_.summed += added;
  // A range that holds only padding may arrive after the last element.
  if (added == 0 || !HoldsStep()) return absl::OkStatus();
  if (clips()) {
    double sum = 0;
    for (const ShardLayout::Shard& shard : layout_.shards()) {
      sum += SumOfSquares(sum_.data() + shard.local.begin, shard.local.count);
    }
    held_.norm = {sum};
  }
  for (PushInbox& inbox : inboxes_) {
    if (!std::exchange(inbox.awaits_norm, false)) continue;
    if (clips()) {
      AnswerNorm(FrameKind::kNorm, inbox.push, actions);
    } else {
      TETHYS_RETURN_IF_ERROR(Measure(inbox.push, {}, actions));
    }
  }
  return absl::OkStatus();
}

absl::Status ParameterStore::CheckExchange(const Frame& frame, PayloadPieces payload, size_t values,
                                           size_t values_sent) {
  TETHYS_RETURN_IF_ERROR(broken_);
  TETHYS_RETURN_IF_ERROR(Admit(frame));
  const uint64_t bytes = values_sent * sizeof(double);
  if (frame.dtype != FrameDType::kFloat64 || frame.range_begin != 0 || frame.range_count != values ||
      frame.payload_bytes != bytes || PayloadBytes(payload) != static_cast<int64_t>(bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat(Who(frame), "expected an exchange of ", values, " sums of squares, with ", bytes,
                     " bytes of float64; its message is one of ", frame.range_count, ", with ",
                     PayloadBytes(payload), " bytes"));
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

absl::Status ParameterStore::CheckTotals(const Frame& frame, const std::vector<double>& totals,
                                         const std::vector<double>& own,
                                         const std::vector<double>* first) const {
  if (first != nullptr && !SameBits(totals, *first)) {
    return absl::InvalidArgumentError(absl::StrCat(Who(frame), "its sums of squares begin with ", totals[0],
                                                   ", those of another worker for the same step with ",
                                                   (*first)[0]));
  }
  for (size_t i = 0; i < totals.size(); ++i) {
    if (!(totals[i] < own[i])) continue;
    return absl::InvalidArgumentError(absl::StrCat(Who(frame), "it brings a sum of squares of ", totals[i],
                                                   " over all servers, below this server's own sum of ",
                                                   own[i]));
  }
  return absl::OkStatus();
}

absl::Status ParameterStore::CheckNorm(const Frame& frame, double total) const {
  if (std::isfinite(total)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(Who(frame), "it brings a sum of squares of ", total, ", expected a finite number"));
}

absl::Status ParameterStore::OnNorm(const Frame& frame, PayloadPieces payload, StoreActions& actions) {
  if (!clips()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Who(frame), "it asks for a norm, but these servers do not clip gradients"));
  }
  TETHYS_RETURN_IF_ERROR(CheckExchange(frame, payload, 1, 0));
  PushInbox& inbox = inboxes_[frame.rank];
  if (frame.sequence == inbox.push.sequence && !HoldsStep()) {
    inbox.awaits_norm = true;
  } else {
    AnswerNorm(FrameKind::kNorm, frame, actions);
  }
  return absl::OkStatus();
}

absl::Status ParameterStore::OnMeasure(const Frame& frame, PayloadPieces payload, StoreActions& actions) {
  if (!measures()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Who(frame), "it asks for the norms of variables, but these servers need none"));
  }
  TETHYS_RETURN_IF_ERROR(CheckExchange(frame, payload, measured_values(), clips() ? 1 : 0));
  PushInbox& inbox = inboxes_[frame.rank];
  const bool current = frame.sequence == inbox.push.sequence;
  if (current && !HoldsStep()) {
    if (clips()) return TooEarly(frame);
    inbox.awaits_norm = true;
    return absl::OkStatus();
  }
  const std::vector<double> total = ReadDoubles(payload);
  if (clips()) {
    TETHYS_RETURN_IF_ERROR(CheckNorm(frame, total[0]));
    const bool first = current && !held_.is_measured;
    TETHYS_RETURN_IF_ERROR(CheckTotals(frame, total, held_.norm, first ? nullptr : &held_.total_norm));
  }
  return Measure(frame, total, actions);
}

absl::Status ParameterStore::Measure(const Frame& frame, const std::vector<double>& total_norm,
                                     StoreActions& actions) {
  if (HoldsStep() && !held_.is_measured) {
    absl::StatusOr<Update> update = MakeHeldUpdate(frame, total_norm);
    if (!update.ok()) return Break(update.status(), actions);
    std::vector<RegionSquares> squares(layout_.shards().size());
    const absl::Status measured = optimizer_->Measure(stream_, *update, parameters_.data(), sum_.data(),
                                                      slot_pointers_, absl::MakeSpan(squares));
    if (!measured.ok()) return Break(Annotate(measured, Who(frame)), actions);
    held_.measured.clear();
    for (const RegionSquares& of : squares) {
      held_.measured.insert(held_.measured.end(), {of.parameters, of.measured});
    }
    held_.total_norm = total_norm;
    held_.is_measured = true;
  }
  AnswerNorm(FrameKind::kMeasure, frame, actions);
  return absl::OkStatus();
}

absl::Status ParameterStore::OnCommit(const Frame& frame, PayloadPieces payload, StoreActions& actions) {
  if (!HoldsBack()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Who(frame), "it commits a step, but these servers wait for no norm"));
  }
  const size_t values = measures() ? measured_values() : 1;
  TETHYS_RETURN_IF_ERROR(CheckExchange(frame, payload, values, values));
  const bool first = frame.sequence == inboxes_[frame.rank].push.sequence;
  if (first && (!HoldsStep() || (measures() && !held_.is_measured))) return TooEarly(frame);
  std::vector<double> totals = ReadDoubles(payload);
  if (!measures()) TETHYS_RETURN_IF_ERROR(CheckNorm(frame, totals[0]));
  TETHYS_RETURN_IF_ERROR(CheckTotals(frame, totals, measures() ? held_.measured : held_.norm,
                                     first ? nullptr : &held_.committed));
  if (first) TETHYS_RETURN_IF_ERROR(UpdateHeld(frame, std::move(totals), actions));
  AnswerNorm(FrameKind::kCommit, frame, actions);
  return absl::OkStatus();
}

absl::Status ParameterStore::TooEarly(const Frame& frame) const {
  return absl::OutOfRangeError(absl::StrCat(
      Who(frame), HoldsStep() ? "it commits a step whose variables have not been measured"
                              : "it brings a norm, but the gradients of its step have not all arrived"));
}

absl::StatusOr<Update> ParameterStore::MakeHeldUpdate(const Frame& frame,
                                                      const std::vector<double>& total_norm) const {
  TETHYS_ASSIGN_OR_RETURN(Update update, MakeUpdate(inboxes_[frame.rank].push, rule_->Divisor(all_workers_)));
  if (clips()) {
    const auto scale = static_cast<float>(update.gradient_scale);
    update.gradient_scale = ClippedScale(scale, total_norm[0], config_.clip_norm);
  }
  return update;
}

absl::Status ParameterStore::UpdateHeld(const Frame& frame, std::vector<double> totals,
                                        StoreActions& actions) {
  absl::StatusOr<Update> update = MakeHeldUpdate(frame, measures() ? held_.total_norm : totals);
  if (!update.ok()) return Break(update.status(), actions);
  std::vector<RegionSquares> squares;
  for (size_t i = 0; measures() && i < totals.size(); i += kSumsOfShard) {
    squares.push_back({.parameters = totals[i], .measured = totals[i + 1]});
  }
  update->squares = squares;
  held_.summed = 0;
  held_.is_measured = false;
  held_.committed = std::move(totals);
  std::vector<Range> parts;  // A copy, since the last update forgets the pushes.
  for (const PushParts::Part& part : inboxes_[frame.rank].parts.in_order()) parts.push_back(part.local);
  for (const Range& part : parts) {
    update->part = part;
    const absl::Status updated = UpdateRange(*update, actions);
    if (!updated.ok()) return Break(Annotate(updated, Who(frame)), actions);
  }
  return absl::OkStatus();
}

size_t ParameterStore::measured_values() const { return kSumsOfShard * layout_.shards().size(); }

void ParameterStore::AnswerNorm(FrameKind kind, const Frame& frame, StoreActions& actions) const {
  const std::vector<double>& values = kind == FrameKind::kNorm ? held_.norm : held_.measured;
  const std::vector<double>& confirmed = kind == FrameKind::kCommit ? held_.committed : values;
  actions.ReplyNorm({.kind = kind,
                     .worker = static_cast<int>(frame.rank),
                     .sequence = frame.sequence,
                     .step = frame.step,
                     .count = static_cast<int64_t>(confirmed.size()),
                     .values = kind == FrameKind::kCommit ? absl::Span<const double>() : values});
}

}  // namespace tethys
