#include "runtime/telemetry/timing_analysis.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/base/state_check.h"

namespace tethys {
namespace {

// The mean of the values that are present; absent if none is.
class MeanOf {
 public:
  void Add(double value) {
    sum_ += value;
    ++count_;
  }
  void Add(const std::optional<double>& value) {
    if (value) Add(*value);
  }
  std::optional<double> value() const { return count_ == 0 ? std::nullopt : std::optional(sum_ / count_); }

 private:
  double sum_ = 0;
  int count_ = 0;
};

}  // namespace

void IterationTimes::Add(int64_t epoch, Nanoseconds total_ns) {
  if (count_ == 0) first_epoch_ = epoch;
  if (epoch == first_epoch_ && count_ < kEarly) early_.push_back(total_ns);
  sum_ns_ += total_ns;
  ++count_;
}

IterationTimes IterationTimes::Slowest(absl::Span<const IterationTimes> workers) {
  IterationTimes slowest;
  for (const IterationTimes& worker : workers) slowest.count_ = std::max(slowest.count_, worker.count_);
  for (const IterationTimes& worker : workers) {
    if (worker.count_ < slowest.count_) continue;
    slowest.sum_ns_ = std::max(slowest.sum_ns_, worker.sum_ns_);
    slowest.early_.resize(std::max(slowest.early_.size(), worker.early_.size()));
    for (size_t i = 0; i < worker.early_.size(); ++i) {
      slowest.early_[i] = std::max(slowest.early_[i], worker.early_[i]);
    }
  }
  return slowest;
}

void IterationTimes::Save(proto::IterationState& state) const {
  state.set_count(count_);
  state.set_first_epoch(first_epoch_);
  state.set_sum_ns(sum_ns_);
  state.mutable_early_ns()->Assign(early_.begin(), early_.end());
}

absl::Status IterationTimes::Restore(const proto::IterationState& state) {
  StateCheck check;
  check.Count("count", state.count());
  check.Count("first_epoch", state.first_epoch());
  check.Sum("sum_ns", state.sum_ns());
  check.Within("the number of early iterations", state.early_ns_size(), state.count() > 0 ? 1 : 0,
               std::min<int64_t>(kEarly, state.count()));
  for (const Nanoseconds time : state.early_ns()) check.Within("early_ns", time, 0, state.sum_ns());
  TETHYS_RETURN_IF_ERROR(check.status());
  count_ = state.count();
  first_epoch_ = state.first_epoch();
  sum_ns_ = state.sum_ns();
  early_.assign(state.early_ns().begin(), state.early_ns().end());
  return absl::OkStatus();
}

TimingAnalysis Analyse(const IterationTimes& times, double validation_seconds) {
  TimingAnalysis analysis;
  analysis.first_iteration = ToSeconds(times.first_ns());
  if (times.count() < 2 || times.remaining_ns() <= 0) return analysis;
  const double remaining = ToSeconds(times.remaining_ns());
  const double tmi_avg = remaining / static_cast<double>(times.count() - 1);
  analysis.tmi_avg = tmi_avg;
  analysis.beta = (analysis.first_iteration + validation_seconds) / remaining;
  for (size_t i = 0; i < kEstimateLast.size(); ++i) {
    const int last = kEstimateLast[i];
    if (static_cast<int>(times.early().size()) < last) continue;
    const auto from_second = times.early().subspan(1, last - 1);
    const Nanoseconds sum = std::accumulate(from_second.begin(), from_second.end(), Nanoseconds{0});
    const double estimate = ToSeconds(sum) / (last - 1);
    analysis.estimates[i] = {.seconds = estimate, .error = std::abs(estimate - tmi_avg) / tmi_avg};
  }
  return analysis;
}

TimingAnalysis Mean(absl::Span<const TimingAnalysis> workers) {
  TimingAnalysis mean;
  MeanOf first_iteration, tmi_avg, beta;
  for (const TimingAnalysis& worker : workers) {
    first_iteration.Add(worker.first_iteration);
    tmi_avg.Add(worker.tmi_avg);
    beta.Add(worker.beta);
  }
  mean.first_iteration = first_iteration.value().value_or(0);
  mean.tmi_avg = tmi_avg.value();
  mean.beta = beta.value();
  for (size_t i = 0; i < mean.estimates.size(); ++i) {
    MeanOf seconds, error;
    for (const TimingAnalysis& worker : workers) {
      if (!worker.estimates[i]) continue;
      seconds.Add(worker.estimates[i]->seconds);
      error.Add(worker.estimates[i]->error);
    }
    if (seconds.value()) mean.estimates[i] = {.seconds = *seconds.value(), .error = *error.value()};
  }
  return mean;
}

}  // namespace tethys
