// Which failure a job ends with. Failures that merely follow from another ("my peer vanished") often arrive
// first; they are held back for a moment, so that the cause is reported and not the echo. Pure; belongs to
// the controller.
#ifndef TETHYS_RUNTIME_CHIEF_JOB_FAILURE_H_
#define TETHYS_RUNTIME_CHIEF_JOB_FAILURE_H_

#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/chief/chief_actions.h"

namespace tethys {

// Invariant: the first certain failure stands; before there is one, the first that may be an echo.
class JobFailure {
 public:
  // How long a failure that looks like an echo waits for its cause.
  static constexpr Nanoseconds kEchoPatience = 500 * kMillisecond;

  // What the chief itself has seen. `culprit` without a role: nobody in particular.
  void Note(const absl::Status& status, TaskId culprit, Nanoseconds now);
  // A task's own word, which may be an echo.
  void NoteReport(const absl::Status& status, TaskId culprit, Nanoseconds now);

  bool any() const { return !status_.ok(); }
  // It is time to end the job with it.
  bool Due(Nanoseconds now) const { return any() && now >= due_; }
  const absl::Status& status() const { return status_; }
  TaskId culprit() const { return culprit_; }

 private:
  void Set(const absl::Status& status, TaskId culprit, bool echo, Nanoseconds due);

  absl::Status status_;
  TaskId culprit_;
  bool echo_ = false;
  Nanoseconds due_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_JOB_FAILURE_H_
