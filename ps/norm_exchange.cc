#include "ps/norm_exchange.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "runtime/device/norm_formulas.h"

namespace tethys {
namespace {

// The doubles in a payload, which must not end within a value.
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

NormExchange::NormExchange(const StoreConfig& config, bool lock_step, const ShardLayout& layout,
                           const FrameChecks& checks)
    : clip_norm_(lock_step ? config.clip_norm : 0),
      measures_(lock_step && config.measures),
      layout_(layout),
      checks_(checks) {}

bool NormExchange::Add(int64_t elements) {
  summed_ += elements;
  // A range of padding alone may arrive after the last element; it does not complete the step again.
  return elements > 0 && holds_step();
}

// -------------------------------------------------------------------------------------------- frames

absl::Status NormExchange::CheckWanted(const Frame& frame) const {
  const char* unwanted = nullptr;
  if (frame.kind == FrameKind::kNorm && !clips()) {
    unwanted = "the worker requests a norm, but these servers do not clip gradients";
  } else if (frame.kind == FrameKind::kMeasure && !measures()) {
    unwanted = "the worker requests the norms of variables, but these servers need none";
  } else if (frame.kind == FrameKind::kCommit && !holds_back()) {
    unwanted = "the worker commits a step, but these servers wait for no norm";
  }
  if (unwanted == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(checks_.Who(frame), unwanted));
}

absl::StatusOr<NormExchange::Next> NormExchange::Take(const Frame& frame, PayloadPieces payload,
                                                      const PushInbox& inbox) {
  const size_t committed = measures() ? measured_values() : 1;
  const size_t values = frame.kind == FrameKind::kMeasure  ? measured_values()
                        : frame.kind == FrameKind::kCommit ? committed
                                                           : 1;
  const size_t sent = frame.kind == FrameKind::kMeasure  ? (clips() ? 1 : 0)
                      : frame.kind == FrameKind::kCommit ? committed
                                                         : 0;
  TETHYS_RETURN_IF_ERROR(CheckExchange(frame, payload, inbox, values, sent));
  const bool current = frame.sequence == inbox.push.sequence && frame.sequence != inbox.applied.sequence;
  if (frame.kind == FrameKind::kMeasure) return TakeMeasure(frame, payload, current);
  if (frame.kind == FrameKind::kCommit) return TakeCommit(frame, payload, current);
  return current && !holds_step() ? Next::kWait : Next::kAnswer;
}

absl::StatusOr<NormExchange::Next> NormExchange::TakeMeasure(const Frame& frame, PayloadPieces payload,
                                                             bool current) {
  if (current && !holds_step()) {
    if (clips()) return TooEarly(frame);
    return Next::kWait;
  }
  std::vector<double> total = ReadDoubles(payload);
  const bool first = current && !is_measured_;
  if (clips()) {
    TETHYS_RETURN_IF_ERROR(CheckNorm(frame, total[0]));
    TETHYS_RETURN_IF_ERROR(CheckTotals(frame, total, norm_, first ? nullptr : &total_norm_));
  }
  if (!first) return Next::kAnswer;
  total_norm_ = std::move(total);
  return Next::kMeasure;
}

absl::StatusOr<NormExchange::Next> NormExchange::TakeCommit(const Frame& frame, PayloadPieces payload,
                                                            bool current) {
  if (current && (!holds_step() || (measures() && !is_measured_))) return TooEarly(frame);
  std::vector<double> totals = ReadDoubles(payload);
  if (!measures()) TETHYS_RETURN_IF_ERROR(CheckNorm(frame, totals[0]));
  TETHYS_RETURN_IF_ERROR(
      CheckTotals(frame, totals, measures() ? measured_ : norm_, current ? nullptr : &committed_));
  if (!current) return Next::kAnswer;
  committed_ = std::move(totals);
  return Next::kUpdate;
}

NormReply NormExchange::AnswerTo(FrameKind kind, const Frame& frame) const {
  const std::vector<double>& values = kind == FrameKind::kNorm ? norm_ : measured_;
  const std::vector<double>& confirmed = kind == FrameKind::kCommit ? committed_ : values;
  return {.kind = kind,
          .worker = static_cast<int>(frame.rank),
          .sequence = frame.sequence,
          .step = frame.step,
          .count = static_cast<int64_t>(confirmed.size()),
          .values = kind == FrameKind::kCommit ? absl::Span<const double>() : values};
}

// -------------------------------------------------------------------------------------------- checks

absl::Status NormExchange::CheckExchange(const Frame& frame, PayloadPieces payload, const PushInbox& inbox,
                                         size_t values, size_t sent) const {
  const uint64_t bytes = sent * sizeof(double);
  if (frame.dtype != FrameDType::kFloat64 || frame.range_begin != 0 || frame.range_count != values ||
      frame.payload_bytes != bytes || PayloadBytes(payload) != static_cast<int64_t>(bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat(checks_.Who(frame), "expected an exchange of ", values, " sums of squares with ", bytes,
                     " bytes of float64, but the message has ", frame.range_count, " sums with ",
                     PayloadBytes(payload), " bytes"));
  }
  TETHYS_RETURN_IF_ERROR(checks_.CheckIntact(frame, payload));
  const Frame& push = inbox.last_push();
  if (push.sequence == frame.sequence && push.step == frame.step && push.sequence != 0) {
    return absl::OkStatus();
  }
  return absl::OutOfRangeError(absl::StrCat(checks_.Who(frame), "the worker exchanges the norm of push ",
                                            frame.sequence, ", but its last push is ", push.sequence,
                                            " of step ", push.step));
}

absl::Status NormExchange::CheckTotals(const Frame& frame, const std::vector<double>& totals,
                                       const std::vector<double>& own,
                                       const std::vector<double>* first) const {
  if (first != nullptr && !SameBits(totals, *first)) {
    return absl::InvalidArgumentError(
        absl::StrCat(checks_.Who(frame), "the worker's sums of squares begin with ", totals[0],
                     ", but the sums of another worker for the same step begin with ", (*first)[0]));
  }
  for (size_t i = 0; i < totals.size(); ++i) {
    if (!(totals[i] < own[i])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(checks_.Who(frame), "the worker sends a sum of squares of ", totals[i],
                     " over all servers, below this server's own sum of ", own[i]));
  }
  return absl::OkStatus();
}

absl::Status NormExchange::CheckNorm(const Frame& frame, double total) const {
  if (std::isfinite(total)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(checks_.Who(frame), "the worker sends a sum of squares of ",
                                                 total, "; expected a finite number"));
}

absl::Status NormExchange::TooEarly(const Frame& frame) const {
  return absl::OutOfRangeError(absl::StrCat(
      checks_.Who(frame), holds_step()
                              ? "the worker commits a step whose variables have not been measured"
                              : "the worker sends a norm, but not all gradients of its step have arrived"));
}

// -------------------------------------------------------------------------------------- the held step

void NormExchange::Clip(Update& update) const {
  if (!clips()) return;
  const double total = measures() ? total_norm_[0] : committed_[0];
  update.gradient_scale = ClippedScale(static_cast<float>(update.gradient_scale), total, clip_norm_);
}

void NormExchange::SetMeasured(absl::Span<const RegionSquares> squares) {
  measured_.clear();
  for (const RegionSquares& of : squares) {
    measured_.insert(measured_.end(), {of.parameters, of.measured});
  }
  is_measured_ = true;
}

void NormExchange::Drop() {
  summed_ = 0;
  is_measured_ = false;
}

std::vector<RegionSquares> NormExchange::End() {
  Drop();
  std::vector<RegionSquares> squares;
  for (size_t i = 0; measures() && i < committed_.size(); i += kSumsOfShard) {
    squares.push_back({.parameters = committed_[i], .measured = committed_[i + 1]});
  }
  return squares;
}

}  // namespace tethys
