// A segment of workers in lock step. The chief can end the segment early, at the same step on every worker,
// to save a checkpoint when the user interrupts the job. The chief's side is in
// runtime/chief/pause_coordinator.h.
//
//   chief: Pause    worker, before step k of the segment: sends Pausing{k + 1}, makes step k, waits
//   chief: Cut{n}, n the largest of all answers; every worker makes its steps up to n and ends the segment
//
// A worker that has answered k + 1 makes step k before it waits. Another worker may have begun step k + 1
// before its Pause arrived. That worker then waits in step k + 1 for the first worker and cannot answer. So
// the chief sends the first worker another Pause. Each further Pause lets the first worker make one more step
// before it waits. Batches that were announced beyond the cut are dropped, because the job ends.
//
// Invariant: done() <= rest_at_ <= steps_ from the first Pause on, until the Cut.
#include <algorithm>

#include "workers/segment_course.h"

namespace tethys {
namespace {

class LockStepSegment final : public SegmentCourse {
 public:
  LockStepSegment(const proto::Run& run, int64_t global_batch, int rank, int world)
      : run_(run),
        global_batch_(global_batch),
        rank_(rank),
        world_(world),
        steps_(StepsPerEpoch(run.end() - run.begin(), global_batch, false)) {}

  bool ended() const override { return done() == steps_; }
  // Orders that come after the Cut, or after the last step, are taken only when the segment has ended.
  bool takes_orders() const override { return !cut_ && !ended(); }
  bool waits() const override { return takes_orders() && done() == rest_at_; }

  absl::StatusOr<bool> OnOrder(const proto::ToTask& order, Messages& messages) override {
    if (order.has_pause() && order.pause().run() == run_.number()) {
      rest_at_ = std::min(std::max(done(), rest_at_) + 1, steps_);
      proto::Pausing& pausing = *messages.emplace_back().mutable_pausing();
      pausing.set_run(run_.number());
      pausing.set_steps(rest_at_);
      return true;
    }
    const proto::Cut& cut = order.cut();
    const bool may_cut =
        rest_at_ >= 0 && cut.run() == run_.number() && cut.steps() >= rest_at_ && cut.steps() <= steps_;
    if (!order.has_cut() || !may_cut) return false;
    steps_ = cut.steps();
    cut_ = true;
    return true;
  }

 protected:
  absl::optional<BatchAssignment> Next(Messages&) override {
    if (next_ >= steps_) return absl::nullopt;
    const int64_t samples = run_.end() - run_.begin();
    const Slice whole = StepSlice(samples, global_batch_, next_);
    const Slice mine = StepSlice(samples, global_batch_, next_, rank_, world_);
    return BatchAssignment{.positions = {run_.begin() + mine.begin, run_.begin() + mine.end},
                           .global_count = whole.count(),
                           .step_begin = run_.begin() + whole.begin,
                           .step = run_.first_step() + next_++};
  }

 private:
  const proto::Run run_;
  const int64_t global_batch_;
  const int rank_;
  const int world_;
  int64_t steps_;         // Steps in the segment; after a Cut, the steps before the cut.
  int64_t next_ = 0;      // The next step to announce.
  int64_t rest_at_ = -1;  // Number of steps after which the worker waits for orders; -1: no Pause came.
  bool cut_ = false;
};

}  // namespace

std::unique_ptr<SegmentCourse> CreateLockStepSegment(const proto::Run& run, int64_t global_batch, int rank,
                                                     int world) {
  return std::make_unique<LockStepSegment>(run, global_batch, rank, world);
}

}  // namespace tethys
