#include "runtime/chief/segment_planner.h"

#include <algorithm>

#include "absl/types/optional.h"
#include "runtime/base/status.h"
#include "runtime/chief/early_stopping.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/cluster/sample_order.h"
#include "runtime/job/job.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

// The positions of `whole` that are not in `used`, in order; nullopt if `used` has positions outside `whole`.
absl::optional<std::vector<Slice>> GapsIn(Slice whole, const IntervalSet& used) {
  std::vector<Slice> gaps;
  int64_t at = whole.begin;
  for (const auto& [begin, end] : used.intervals()) {
    if (begin < at || end > whole.end) return absl::nullopt;
    if (begin > at) gaps.push_back({at, begin});
    at = end;
  }
  if (at < whole.end) gaps.push_back({at, whole.end});
  return gaps;
}

}  // namespace

SegmentPlanner::SegmentPlanner(const proto::JobPlan& plan)
    : job_(plan.job()),
      traits_(TraitsOf(plan.job())),
      batch_(SamplesPerUpdate(plan)),
      epoch_positions_(SamplesPerEpoch(plan)),
      sharded_(ShardingOf(plan) != proto::Data::GLOBAL),
      split_(RankSplitOf(plan)) {}

int64_t SegmentPlanner::total_steps() const {
  const int64_t by_epochs = job_.epochs() * StepsPerEpoch(epoch_positions_, batch_, false);
  if (job_.epochs() == 0) return job_.max_steps();
  return job_.max_steps() == 0 ? by_epochs : std::min(by_epochs, job_.max_steps());
}

bool SegmentPlanner::Finished(const proto::TrainingState& state) const {
  return ReachedItsLength(state) || StoppedEarly(state);
}

bool SegmentPlanner::ReachedItsLength(const proto::TrainingState& state) const {
  return (job_.epochs() > 0 && state.epoch() >= job_.epochs()) ||
         (job_.max_steps() > 0 && state.step() >= job_.max_steps());
}

bool SegmentPlanner::StoppedEarly(const proto::TrainingState& state) const {
  return job_.has_early_stopping() && StopsEarly(job_.early_stopping(), state.early_stopping());
}

TrainingSegment SegmentPlanner::Next(const proto::TrainingState& state) const {
  TETHYS_CHECK(!Finished(state));
  int64_t steps = StepsOf(epoch_positions_ - state.position());
  if (const int64_t every = job_.checkpoint().every_steps(); every > 0) {
    steps = std::min(steps, every - state.step() % every);
  }
  if (job_.max_steps() > 0) steps = std::min(steps, job_.max_steps() - state.step());
  TrainingSegment segment;
  segment.epoch = state.epoch();
  segment.steps = steps;
  segment.positions = {state.position(), std::min(epoch_positions_, state.position() + steps * batch_)};
  segment.ends_epoch = segment.positions.end == epoch_positions_;
  return segment;
}

std::vector<BatchLease> SegmentPlanner::Batches(const TrainingSegment& segment, int shares) const {
  const bool in_rounds = batches() == tethys::Batches::kInRounds;
  std::vector<BatchLease> batches = in_rounds ? BatchesOfSteps(segment.positions, batch_, shares)
                                              : SingleBatches(segment.positions, batch_);
  if (!sharded_) return batches;
  for (BatchLease& batch : batches)
    batch.owner = static_cast<int>(split_.PlaceOf(batch.positions.begin).rank);
  return batches;
}

absl::StatusOr<SegmentRest> SegmentPlanner::RestOf(const TrainingSegment& segment, const IntervalSet& used,
                                                   int shares) const {
  const auto [begin, end] = segment.positions;
  const absl::optional<std::vector<Slice>> gaps = GapsIn(segment.positions, used);
  if (!gaps.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat("positions outside the segment [", begin, ", ", end, ") are used"));
  }
  SegmentRest rest{.segment = segment};
  rest.segment.positions.begin = gaps->empty() ? end : gaps->front().begin;
  if (!leased()) {
    const int64_t first = rest.segment.positions.begin;
    if (gaps->size() > 1 || (!gaps->empty() && (gaps->front().end != end || (first - begin) % batch_ != 0))) {
      return absl::FailedPreconditionError(absl::StrCat("only a part of the samples of the step at position ",
                                                        first,
                                                        " is used, or samples of a later step are used"));
    }
    rest.segment.steps = StepsOf(end - first);
    return rest;
  }
  // Each batch keeps its unused positions, its owner and, if batches are leased in rounds, its global batch.
  rest.segment.steps = 0;
  Slice counted;  // The global batch of the last counted step.
  auto gap = gaps->begin();
  for (const BatchLease& batch : Batches(segment, shares)) {
    while (gap != gaps->end() && gap->end <= batch.positions.begin) ++gap;
    for (auto next = gap; next != gaps->end() && next->begin < batch.positions.end; ++next) {
      BatchLease left = batch;
      left.positions = {std::max(next->begin, batch.positions.begin),
                        std::min(next->end, batch.positions.end)};
      if (batches() == tethys::Batches::kOnDemand) left.step = left.positions;
      if (left.step != counted) ++rest.segment.steps;
      counted = left.step;
      rest.batches.push_back(left);
    }
  }
  return rest;
}

TrainingSegment SegmentPlanner::CutAt(const TrainingSegment& segment, int64_t end) const {
  TrainingSegment cut = segment;
  cut.positions.end = end;
  cut.steps = StepsOf(cut.positions.count());
  cut.ends_epoch = end == epoch_positions_;
  return cut;
}

bool SegmentPlanner::SaveDue(const proto::TrainingState& state, bool epoch_ended,
                             double seconds_since) const {
  const proto::Checkpoint& checkpoint = job_.checkpoint();
  if (seconds_since < checkpoint.min_seconds()) return false;
  return (checkpoint.every_steps() > 0 && state.step() % checkpoint.every_steps() == 0) ||
         (epoch_ended && checkpoint.every_epochs() > 0 && state.epoch() % checkpoint.every_epochs() == 0);
}

}  // namespace tethys
