#include "deploy/live/time_left.h"

#include <algorithm>
#include <cmath>

#include "deploy/statistics.h"

namespace tethys {

void TimeLeft::Add(const proto::Progress& progress) {
  const double samples =
      static_cast<double>(progress.epoch()) * static_cast<double>(progress.epoch_samples()) +
      static_cast<double>(progress.epoch_samples_done());
  if (samples < 0) return;
  samples_ = samples;
  const double left = progress.eta_seconds() * progress.samples_per_second();
  if (progress.epoch_samples_done() > 0 && progress.samples_per_second() > 0 && std::isfinite(left) &&
      left >= 0) {
    total_samples_ = samples + left;
  }
}

void TimeLeft::At(double seconds) {
  if (!std::isfinite(seconds) || (!marks_.empty() && seconds <= newest_.seconds)) return;
  if (samples_ <= 0) return;  // Nothing has been trained yet.
  if (samples_ < newest_.samples) {
    marks_.clear();
    gap_ = 0;
  }
  newest_ = {seconds, samples_};
  if (!marks_.empty() && seconds - marks_.back().seconds < gap_) return;
  marks_.push_back(newest_);
  if (marks_.size() < kMostMarks) return;
  for (size_t i = 0; 2 * i < marks_.size(); ++i) marks_[i] = marks_[2 * i];
  marks_.resize((marks_.size() + 1) / 2);
  // The least gap is 10 % below the mean gap of these marks, because a call of At may come a little early.
  gap_ = 0.9 * (marks_.back().seconds - marks_.front().seconds) / static_cast<double>(marks_.size() - 1);
}

absl::optional<proto::Estimate> TimeLeft::Left() const {
  if (marks_.empty() || total_samples_ <= 0) return absl::nullopt;
  const double half = (marks_.front().seconds + newest_.seconds) / 2;
  size_t first = 0;
  while (first + 1 < marks_.size() && marks_[first + 1].seconds <= half) ++first;
  const size_t blocks = marks_.size() - 1 - first;
  const Mark& begin = marks_[first];
  const Mark& end = marks_.back();
  const double samples = end.samples - begin.samples, seconds = end.seconds - begin.seconds;
  if (blocks < kLeastBlocks || seconds < kLeastSeconds || !(samples > 0)) return absl::nullopt;
  const double mean = seconds / samples, count = static_cast<double>(blocks);
  // Compares the time of a block with the mean time for the block's number of samples. Unlike a time per
  // sample, this difference is defined for a block without samples, too.
  double squares = 0;
  for (size_t i = first; i + 1 < marks_.size(); ++i) {
    const double expected = (marks_[i + 1].samples - marks_[i].samples) * mean;
    const double length = marks_[i + 1].seconds - marks_[i].seconds;
    squares += std::pow((length - expected) / (seconds / count), 2);
  }
  const double deviation = std::sqrt(squares / (count - 1));
  const double left = std::max(0.0, total_samples_ - newest_.samples);
  const double to_come = std::max(left / (samples / count), 1e-3);
  const double half_width =
      StudentQuantile(kNormal95, count - 1) * deviation * std::sqrt(1 / count + 1 / to_come);
  proto::Estimate estimate;
  estimate.set_value(left * mean);
  estimate.set_low(left * mean * std::max(0.0, 1 - half_width));
  estimate.set_high(left * mean * (1 + half_width));
  if (!std::isfinite(estimate.high())) return absl::nullopt;
  return estimate;
}

}  // namespace tethys
