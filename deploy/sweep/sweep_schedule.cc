#include "deploy/sweep/sweep_schedule.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "deploy/sweep/batch_time.h"
#include "runtime/base/quantile.h"
#include "runtime/base/random.h"

namespace tethys {
namespace {

constexpr int kReferenceEvery = 8;
// The time of the reference batch at a moment is the median of this number of visits around the moment.
constexpr size_t kReferencesAround = 5;

bool WasDisturbed(const proto::StepVisit& visit) { return visit.disturbed(); }
double StepOf(const proto::StepVisit& visit) { return visit.step(); }

// The visit with its times scaled to the machine's usual speed.
proto::StepVisit WithoutDrift(proto::StepVisit visit, double drift) {
  visit.set_step(visit.step() / drift);
  visit.set_forward(visit.forward() / drift);
  visit.set_backward(visit.backward() / drift);
  visit.set_update(visit.update() / drift);
  for (double& ready : *visit.mutable_ready()) ready /= drift;
  return visit;
}

}  // namespace

SweepSchedule::SweepSchedule(std::vector<int64_t> batches, const Options& options)
    : batches_(std::move(batches)), options_(options) {
  FillRound();
}

void SweepSchedule::FillRound() {
  const auto count = static_cast<int64_t>(batches_.size());
  const RandomStream stream(options_.seed, RandomPurpose::kShuffle, static_cast<uint64_t>(round_));
  for (const uint32_t index : RandomPermutation(stream, count)) queue_.push_back(batches_[index]);
}

bool SweepSchedule::EnoughRounds() const {
  if (batches_.empty() || round_ >= options_.most_rounds) return true;
  return round_ >= options_.rounds && disturbed_ <= kManyDisturbed * visits();
}

std::optional<int64_t> SweepSchedule::Next() {
  if (queue_.empty()) {
    if (EnoughRounds()) return std::nullopt;
    FillRound();
  }
  next_is_reference_ = since_reference_ >= kReferenceEvery - 1;
  if (next_is_reference_) return batches_[batches_.size() / 2];
  return queue_.back();
}

void SweepSchedule::Add(const proto::StepVisit& visit) {
  visits_.push_back({.round = round_, .reference = next_is_reference_, .result = visit});
  disturbed_ += WasDisturbed(visit);
  since_reference_ = next_is_reference_ ? 0 : since_reference_ + 1;
  if (next_is_reference_) return;
  queue_.pop_back();
  if (queue_.empty()) ++round_;
}

void SweepSchedule::Skip(int64_t batch, const std::string& reason) {
  proto::SkippedBatch& skipped = skipped_.emplace_back();
  skipped.set_batch(batch);
  skipped.set_reason(reason);
  batches_.erase(std::remove(batches_.begin(), batches_.end(), batch), batches_.end());
  const bool was_empty = queue_.empty();
  queue_.erase(std::remove(queue_.begin(), queue_.end(), batch), queue_.end());
  if (queue_.empty() && !was_empty) ++round_;
}

std::vector<double> SweepSchedule::Drift() const {
  // For each visit of the reference batch: when the visit began, and the time of its step.
  std::vector<std::pair<double, double>> reference;
  std::vector<double> times;
  const int64_t batch = batches_.empty() ? 0 : batches_[batches_.size() / 2];
  for (const Visit& visit : visits_) {
    if (visit.result.batch() != batch || WasDisturbed(visit.result)) continue;
    reference.emplace_back(visit.result.began(), visit.result.step());
    times.push_back(visit.result.step());
  }
  std::vector<double> drift(visits_.size(), 1);
  if (reference.size() < kReferencesAround) return drift;
  const double usual = Median(times);
  for (size_t i = 0; i < visits_.size(); ++i) {
    const double at = visits_[i].result.began();
    // The references are in order of time. The window of kReferencesAround references moves on as long as the
    // reference that enters it is nearer in time to the visit than the reference that leaves it.
    size_t first = 0;
    while (first + kReferencesAround < reference.size() &&
           std::abs(reference[first + kReferencesAround].first - at) <
               std::abs(reference[first].first - at)) {
      ++first;
    }
    drift[i] = Median({times.begin() + static_cast<std::ptrdiff_t>(first),
                       times.begin() + static_cast<std::ptrdiff_t>(first + kReferencesAround)}) /
               usual;
  }
  return drift;
}

std::vector<int64_t> SweepSchedule::VisitedBatches() const {
  std::set<int64_t> visited;
  for (const Visit& visit : visits_) {
    if (!visit.reference) visited.insert(visit.result.batch());
  }
  return {visited.begin(), visited.end()};
}

RoundTimes SweepSchedule::Times(double (*pick)(const proto::StepVisit&)) const {
  RoundTimes times;
  std::map<int64_t, size_t> index;
  for (const int64_t batch : VisitedBatches()) {
    index[batch] = times.batch.size();
    times.batch.push_back(static_cast<double>(batch));
  }
  std::vector<bool> undisturbed(index.size(), false);
  for (const Visit& visit : visits_) {
    if (!visit.reference && !WasDisturbed(visit.result)) undisturbed[index[visit.result.batch()]] = true;
  }
  const std::vector<double> drift = Drift();
  for (size_t i = 0; i < visits_.size(); ++i) {
    const Visit& visit = visits_[i];
    if (visit.reference) continue;
    const size_t at = index[visit.result.batch()];
    if (WasDisturbed(visit.result) && undisturbed[at]) continue;
    const auto round = static_cast<size_t>(visit.round);
    if (times.time.size() <= round) times.time.resize(round + 1, std::vector<double>(index.size(), 0));
    times.time[round][at] = pick(visit.result) / drift[i];
  }
  return times;
}

std::vector<proto::BatchTime> SweepSchedule::BatchTimes() const {
  const RoundTimes steps = Times(StepOf);
  const std::vector<double> drift = Drift();
  std::vector<proto::BatchTime> times;
  for (size_t i = 0; i < steps.size(); ++i) {
    std::vector<proto::StepVisit> visits;
    for (size_t v = 0; v < visits_.size(); ++v) {
      if (visits_[v].reference || visits_[v].result.batch() != std::llround(steps.batch[i])) continue;
      visits.push_back(WithoutDrift(visits_[v].result, drift[v]));
    }
    proto::BatchTime& time = times.emplace_back(BatchTimeOf(visits));
    for (const std::vector<double>& round : steps.time) time.add_round(round[i]);
  }
  return times;
}

}  // namespace tethys
