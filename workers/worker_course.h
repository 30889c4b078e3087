// The course of a worker, from Join to Stop: which orders are possible in which state, and within a segment
// which batches the worker announces and which steps it makes. Pure: orders, steps and results go in; duties,
// batches and messages come out. Used by the worker's training thread.
//
//   while (course.busy() within a Run order) {
//     orders.Read();                  // OrderReader: hands orders to the course; blocks while course.waits()
//     while (loader has room && (batch = course.Announce())) loader.Announce(batch);
//     orders.Answer();
//     if (course.halts() || !(batch = course.BeginStep())) break;
//     make the step of the batch;
//     course.EndStep();
//   }
//   course.EndRun(statistics);            // unless the worker has left the segment: OnLeft
#ifndef TETHYS_WORKERS_WORKER_COURSE_H_
#define TETHYS_WORKERS_WORKER_COURSE_H_

#include <memory>
#include <vector>

#include "absl/types/optional.h"
#include "proto/chief.pb.h"
#include "runtime/cluster/group_place.h"
#include "runtime/cluster/task_course.h"
#include "runtime/shape/shape_traits.h"
#include "workers/segment_course.h"

namespace tethys {

// Invariant: there is a segment exactly from a Run order to EndRun or OnLeft.
class WorkerCourse final : public TaskCourse {
 public:
  explicit WorkerCourse(int index) : TaskCourse(proto::WORKER), index_(index) {}

  bool takes_orders() const override {
    return segment_ != nullptr ? !halts() && segment_->takes_orders() : TaskCourse::takes_orders();
  }
  bool waits() const override {
    return segment_ != nullptr ? !halts() && segment_->waits() : TaskCourse::waits();
  }

  // ---- within a segment; SegmentCourse says what each function requires and returns

  const proto::Run& run() const { return duty().run(); }
  absl::optional<BatchAssignment> Announce() { return segment_->Announce(messages()); }
  absl::optional<BatchAssignment> BeginStep() { return segment_->BeginStep(); }
  void EndStep() { segment_->EndStep(); }
  // Ends the segment, whose steps must all have been made. Answers the Run order with the number of these
  // steps and with the worker's moving statistics.
  void EndRun(const std::vector<float>& statistics);

 protected:
  void Begin(const proto::ToTask& duty) override;
  void Leave() override { segment_.reset(); }
  absl::Status OnOrderWhileBusy(const proto::ToTask& order) override;

 private:
  const int index_;

  // The next two members are set by the order Setup.
  Batches batches_ = Batches::kInStep;
  int64_t global_batch_ = 0;

  WorkerPlace place_;  // The worker's rank in its group; set by the order Form.

  std::unique_ptr<SegmentCourse> segment_;
  int64_t steps_ = 0;  // Steps made in earlier segments since Setup.
};

}  // namespace tethys

#endif  // TETHYS_WORKERS_WORKER_COURSE_H_
