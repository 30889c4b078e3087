#include "runtime/chief/running_segment.h"

#include <algorithm>
#include <utility>

#include "runtime/chief/journal.h"

namespace tethys {
namespace {

constexpr int64_t kMaxSample = int64_t{1} << 61;

}  // namespace

void RunningSegment::Open(const TrainingSegment& segment) {
  segment_ = segment;
  ledger_.emplace(segment.positions);
  if (planner_.leased()) leases_.Open(planner_.Batches(segment));
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
  run.set_begin(segment_.positions.begin);
  run.set_end(segment_.positions.end);
  run.set_first_step(first_step);
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
                                          " was not used though every worker has ended the run"));
}

Slice RunningSegment::Positions(int64_t sample_begin, int64_t count) const {
  if (sample_begin < 0 || sample_begin > kMaxSample || count < 0 || count > kMaxSample) return {-1, 0};
  const int64_t begin = sample_begin - SampleBegin({});
  return {begin, begin + count};
}

int64_t RunningSegment::SampleBegin(Slice positions) const {
  return JobPosition(segment_.epoch, epoch_length_, positions.begin);
}

}  // namespace tethys
