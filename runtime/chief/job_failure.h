// Chooses the failure that a job ends with. An echo is a failure that merely follows from another failure
// ("my peer vanished"), and often arrives before its cause. An echo is held back for a moment, so that its
// cause can arrive and be reported instead. Pure; owned by JobController.
#ifndef TETHYS_RUNTIME_CHIEF_JOB_FAILURE_H_
#define TETHYS_RUNTIME_CHIEF_JOB_FAILURE_H_

#include "proto/chief_state.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/chief/chief_actions.h"

namespace tethys {

// Invariant: the chosen failure is the first that is no echo or, until such a failure arrives, the first that
// may be an echo.
class JobFailure {
 public:
  // Time for which a failure that looks like an echo waits for its cause.
  static constexpr Nanoseconds kEchoPatience = 500 * kMillisecond;

  // Notes a failure that the chief itself has seen. A `culprit` without a role means that no single task
  // failed.
  void Note(const absl::Status& status, TaskId culprit, Nanoseconds now);
  // Notes a failure that a task reported, which may be an echo.
  void NoteReport(const absl::Status& status, TaskId culprit, Nanoseconds now);

  bool any() const { return !status_.ok(); }
  // True if it is time to end the job with the failure.
  bool Due(Nanoseconds now) const { return any() && now >= due_; }
  const absl::Status& status() const { return status_; }
  TaskId culprit() const { return culprit_; }

  void Save(proto::FailureState& state) const;
  // InvalidArgument: `state` has an impossible status code, role or time.
  absl::Status Restore(const proto::FailureState& state);

 private:
  void Set(const absl::Status& status, TaskId culprit, bool echo, Nanoseconds due);

  absl::Status status_;
  TaskId culprit_;
  bool echo_ = false;
  Nanoseconds due_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_JOB_FAILURE_H_
