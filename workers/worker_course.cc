#include "workers/worker_course.h"

#include "runtime/shape/job_shape.h"

namespace tethys {

void WorkerCourse::Begin(const proto::ToTask& duty) {
  if (duty.has_setup()) {
    const proto::JobPlan& plan = duty.setup().plan();
    batches_ = TraitsOf(plan.job()).batches;
    global_batch_ = plan.global_batch();
  } else if (duty.has_form()) {
    place_ = PlaceIn(duty.form().group(), index_);
  } else if (duty.has_run()) {
    segment_ = batches_ == Batches::kInStep
                   ? CreateLockStepSegment(duty.run(), global_batch_, place_.rank, place_.world)
                   : CreateLeasedSegment(duty.run(), batches_ == Batches::kInRounds, steps_);
  }
}

absl::Status WorkerCourse::OnOrderWhileBusy(const proto::ToTask& order) {
  TETHYS_ASSIGN_OR_RETURN(const bool fits, segment_->OnOrder(order, messages()));
  return fits ? absl::OkStatus() : Impossible(order);
}

void WorkerCourse::EndRun(const std::vector<float>& statistics) {
  TETHYS_CHECK(segment_->ended());
  proto::RunDone& done = *messages().emplace_back().mutable_run_done();
  done.set_run(run().number());
  done.set_steps(segment_->done());
  done.mutable_statistics()->Assign(statistics.begin(), statistics.end());
  steps_ += segment_->done();
  segment_.reset();
}

}  // namespace tethys
