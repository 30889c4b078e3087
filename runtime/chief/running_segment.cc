#include "runtime/chief/running_segment.h"

#include <algorithm>
#include <utility>

#include "runtime/chief/journal.h"
#include "runtime/chief/saved_values.h"

namespace tethys {
namespace {

constexpr int64_t kMaxSample = int64_t{1} << 61;

}  // namespace

void RunningSegment::Open(const TrainingSegment& segment, int shares) {
  segment_ = segment;
  made_ = 0;
  ledger_.emplace(segment.positions);
  if (planner_.leased()) leases_.Open(planner_.Batches(segment, shares));
}

bool RunningSegment::ReopenIfUnfinished() {
  if (!leases_.has_free()) return false;
  leases_.Reopen();
  return true;
}

void RunningSegment::CutAfter(int64_t steps) {
  CutAt(std::min(segment_.positions.end, segment_.positions.begin + steps * planner_.batch()));
}

void RunningSegment::CutToLeased() { CutAt(leases_.CutToDealt()); }

void RunningSegment::CutAt(int64_t end) {
  segment_ = planner_.CutAt(segment_, end);
  ledger_->CutTo(end);
}

proto::Run RunningSegment::RunOrder(int64_t first_step) const {
  proto::Run run;
  run.set_number(run_);
  run.set_epoch(segment_.epoch);
  run.set_begin(std::min(segment_.positions.end, segment_.positions.begin + made_ * planner_.batch()));
  run.set_end(segment_.positions.end);
  run.set_first_step(first_step + made_);
  return run;
}

void RunningSegment::SendLeases(int worker, int batches, Actions& actions) {
  proto::ToTask order;
  proto::Lease& lease = *order.mutable_lease();
  lease.set_run(run_);
  const LeaseBook::Leases leases = leases_.Lease(worker, batches);
  for (const BatchLease& batch : leases.batches) {
    proto::LeaseRange& range = *lease.add_range();
    range.set_begin(batch.positions.begin);
    range.set_end(batch.positions.end);
    range.set_clock(batch.clock);
    range.set_step_begin(batch.step.begin);
    range.set_step_count(batch.step.count());
    actions.push_back(
        WriteJournal{journal::Lease(worker, segment_.epoch, batch.positions.begin, batch.positions.end)});
  }
  lease.set_last(leases.last);
  actions.push_back(SendOrder{{proto::WORKER, worker}, std::move(order)});
}

absl::Status RunningSegment::Use(int worker, Slice positions) {
  if (positions.count() == 0) return absl::OkStatus();
  if (planner_.leased()) TETHYS_RETURN_IF_ERROR(leases_.Use(worker, positions));
  return ledger_->Use(worker, positions);
}

absl::Status RunningSegment::CheckAllUsed() const {
  if (ledger_->all_used()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("position ", ledger_->first_unused(), " of epoch ", segment_.epoch,
                                          " was not used though every worker has finished the segment"));
}

Slice RunningSegment::Positions(int64_t sample_begin, int64_t count) const {
  if (sample_begin < 0 || sample_begin > kMaxSample || count < 0 || count > kMaxSample) return {-1, 0};
  const int64_t begin = sample_begin - SampleBegin({});
  return {begin, begin + count};
}

int64_t RunningSegment::last_epoch() const { return kMaxSample / std::max<int64_t>(1, epoch_length_) - 1; }

int64_t RunningSegment::SampleBegin(Slice positions) const {
  return JobPosition(segment_.epoch, epoch_length_, positions.begin);
}

void RunningSegment::Save(proto::SegmentState& state) const {
  state.set_run(run_);
  state.set_made(made_);
  leases_.Save(*state.mutable_leases());
  if (!open()) return;
  state.set_open(true);
  state.set_epoch(segment_.epoch);
  Put(segment_.positions, *state.mutable_positions());
  state.set_steps(segment_.steps);
  state.set_ends_epoch(segment_.ends_epoch);
  for (const auto& [begin, end] : ledger_->used().intervals()) Put(Slice{begin, end}, *state.add_used());
}

absl::Status RunningSegment::Restore(const proto::SegmentState& state, int workers, int servers) {
  StateCheck check;
  TrainingSegment segment;
  segment.epoch = state.epoch();
  segment.positions = SliceOf(state.positions());
  check.Count("run", state.run());
  check.Within("made", state.made(), 0, std::max<int64_t>(0, state.steps()));
  check.Within("epoch", segment.epoch, 0, last_epoch());
  const auto& [begin, end] = segment.positions;
  check.That(0 <= begin && begin <= end && end <= planner_.epoch_positions(), "the segment [", begin, ", ",
             end, ") does not lie within the positions of an epoch, 0 to ", planner_.epoch_positions());
  TETHYS_RETURN_IF_ERROR(check.status());
  if (state.open()) segment = planner_.CutAt(segment, end);
  check.That(state.steps() == segment.steps && state.ends_epoch() == segment.ends_epoch, "the segment [",
             begin, ", ", end, ") has ", state.steps(), " steps");
  const int64_t dealt_end = state.leases().dealt_end();
  check.That(!state.open() || !planner_.leased() || (begin <= dealt_end && dealt_end <= end),
             "batches are dealt up to position ", dealt_end, ", outside the segment [", begin, ", ", end,
             ")");
  check.And(Annotate(leases_.Restore(state.leases(), {.workers = workers,
                                                      .servers = servers,
                                                      .segment = segment.positions,
                                                      .step_end = planner_.epoch_positions()}),
                     "leases"));
  // Checks that each position is either used or in exactly one batch that is free, dealt or held. Without
  // leases, workers use the positions in the segment's order.
  SampleLedger ledger(segment.positions);
  int64_t leased = 0;
  for (const proto::SavedSlice& used : state.used()) {
    check.That(used.begin() < used.end(), "a used slice is empty");
    if (!check.ok()) continue;
    check.That(ledger.Use(0, SliceOf(used)).ok(), "the used slice [", used.begin(), ", ", used.end(),
               ") is outside the segment, or overlaps another used slice");
  }
  IntervalSet all = ledger.used();
  leases_.ForEachBatch([&](Slice positions) {
    leased += positions.count();
    if (!check.ok() || positions.count() == 0) return;
    check.That(all.Add(positions.begin, positions.end) == IntervalSet::kNone, "positions of the batch [",
               positions.begin, ", ", positions.end, ") are used or belong to another batch, too");
  });
  check.That(planner_.leased() ? all.count() == segment.positions.count() : leased == 0, "the segment [",
             begin, ", ", end, ") is not made up of its ", ledger.used_count(), " used positions and ",
             leased, " leased or free positions");
  TETHYS_RETURN_IF_ERROR(check.status());
  segment_ = segment;
  run_ = state.run();
  made_ = state.made();
  ledger_.reset();
  if (state.open()) ledger_ = std::move(ledger);
  return absl::OkStatus();
}

}  // namespace tethys
