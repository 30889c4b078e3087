#include "deploy/sweep/batch_curve.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tethys {
namespace {

// An extrapolated step time is at least this share of the nearest measured step time, because the line that
// extrapolates may fall below 0.
constexpr double kLeastOfNearest = 0.1;

// True for a time from a nanosecond to 30 years.
bool Positive(double seconds) { return seconds >= 1e-9 && seconds <= 1e9; }
bool NotNegative(double value) { return std::isfinite(value) && value >= 0; }

absl::Status CheckTime(const proto::BatchTime& time, int64_t before) {
  if (time.batch() <= before) {
    return absl::InvalidArgumentError(absl::StrCat("batch ", time.batch(), " follows batch ", before));
  }
  bool sound = Positive(time.step()) && NotNegative(time.forward()) && NotNegative(time.backward()) &&
               NotNegative(time.update());
  for (const double ready : time.ready()) sound = sound && NotNegative(ready);
  if (sound) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a measured time of batch size ", time.batch(), " is not a positive number"));
}

}  // namespace

absl::StatusOr<BatchCurve> BatchCurve::Create(std::vector<proto::BatchTime> times,
                                              std::vector<proto::Segment> segments) {
  if (times.empty()) return absl::InvalidArgumentError("no batch was measured");
  int64_t before = 0;
  for (const proto::BatchTime& time : times) {
    TETHYS_RETURN_IF_ERROR(CheckTime(time, before));
    before = time.batch();
  }
  before = times.front().batch() - 1;
  for (const proto::Segment& segment : segments) {
    if (segment.first() <= before || segment.last() < segment.first() ||
        segment.last() > times.back().batch() || !std::isfinite(segment.at_zero()) ||
        !std::isfinite(segment.per_sample())) {
      return absl::InvalidArgumentError(
          absl::StrCat("the line over batch sizes ", segment.first(), " to ", segment.last(),
                       " must lie within the measured batch sizes and after the line before it"));
    }
    before = segment.last();
  }
  return BatchCurve(std::move(times), std::move(segments));
}

size_t BatchCurve::Below(double batch) const {
  size_t below = 0;
  while (below + 2 < times_.size() && static_cast<double>(times_[below + 1].batch()) <= batch) ++below;
  return below;
}

bool BatchCurve::extrapolated(double batch) const {
  return batch < static_cast<double>(times_.front().batch()) ||
         batch > static_cast<double>(times_.back().batch());
}

double BatchCurve::Step(double batch) const {
  const size_t below = Below(batch), above = std::min(below + 1, times_.size() - 1);
  const double first = static_cast<double>(times_[below].batch()),
               second = static_cast<double>(times_[above].batch());
  double step = 0;
  if (!segments_.empty()) {
    size_t at = 0;
    while (at + 1 < segments_.size() && batch > static_cast<double>(segments_[at].last())) ++at;
    step = segments_[at].at_zero() + segments_[at].per_sample() * batch;
  } else if (above == below) {
    // With one point, the time is taken to be proportional to the batch.
    step = times_[0].step() * batch / first;
  } else {
    step = times_[below].step() +
           (times_[above].step() - times_[below].step()) * (batch - first) / (second - first);
  }
  const bool nearer_second = std::abs(batch - second) < std::abs(batch - first);
  return std::max(step, kLeastOfNearest * (nearer_second ? times_[above] : times_[below]).step());
}

proto::BatchTime BatchCurve::At(double batch) const {
  const size_t below = Below(batch), above = std::min(below + 1, times_.size() - 1);
  const proto::BatchTime &a = times_[below], &b = times_[above];
  const double width = static_cast<double>(b.batch() - a.batch());
  // The shares of phases are interpolated between the two points, and never extrapolated.
  const double part =
      width > 0 ? std::clamp((batch - static_cast<double>(a.batch())) / width, 0.0, 1.0) : 0.0;
  const double step = Step(batch);
  const auto between = [&](double of_a, double of_b) {
    return step * ((1 - part) * of_a / a.step() + part * of_b / b.step());
  };
  proto::BatchTime time;
  time.set_batch(std::llround(batch));
  time.set_step(step);
  time.set_forward(between(a.forward(), b.forward()));
  time.set_backward(between(a.backward(), b.backward()));
  time.set_update(between(a.update(), b.update()));
  time.set_error(std::max(a.error(), b.error()));
  for (int i = 0; i < std::min(a.ready_size(), b.ready_size()); ++i)
    time.add_ready(between(a.ready(i), b.ready(i)));
  return time;
}

}  // namespace tethys
