// The attempts of a run. An attempt starts the processes of the job (deploy/launcher/launcher.h) and ends
// with all of them. Another attempt follows from the newest checkpoint, or from the beginning if there is
// none:
//   - if the attempt lost a process, and the job allows a restart (max_restarts);
//   - if the user asked for other numbers of processes (scale_request.h).
// Blocking; thread-compatible; must be used on the main thread.
#ifndef TETHYS_DEPLOY_RUN_RUN_ATTEMPT_H_
#define TETHYS_DEPLOY_RUN_RUN_ATTEMPT_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "deploy/launcher/launcher.h"
#include "deploy/launcher/run_directory.h"
#include "deploy/process/signal_source.h"
#include "deploy/run/dashboard.h"
#include "deploy/run/job_run.h"
#include "deploy/run/scale_request.h"
#include "proto/checkpoint.pb.h"
#include "proto/plan.pb.h"

namespace tethys {

struct NextAttempt {
  proto::TrainingState state;             // The state from which the attempt continues.
  absl::optional<PlacedJob> placed = {};  // The job with other numbers of processes, if they change.
  int restarts = 0;                       // The restarts that are left for the attempt.
  std::string how = {};                   // How the run goes on, in words for people.
};

struct AttemptEnd {
  RunResult result;
  absl::optional<NextAttempt> next = {};  // nullopt: the run has ended.
};

class AttemptRunner {
 public:
  // `directory` must outlive this object. `options`: of the first attempt.
  AttemptRunner(const RunDirectory& directory, const JobRunOptions& options);

  // Makes one attempt and completes the files of the run directory. `restarts`: the restarts that are left.
  // The attempt uses one for each worker that it replaces, and the step to the next attempt uses one if it
  // follows a loss.
  AttemptEnd Run(const proto::JobPlan& plan, const JobRunOptions& options, int restarts);
  // Discards the interrupts that have arrived since the last attempt ended. They would only prevent the
  // report of the result.
  void DiscardInterrupts();

 private:
  // Prepares the run directory on this machine and on the chief's machine.
  absl::Status Prepare(const proto::JobPlan& plan, const JobRunOptions& options, const Place& chief);
  // What follows an attempt: nullopt: nothing; an error: the next attempt is not possible. `restarts`: the
  // restarts that are left.
  absl::optional<absl::StatusOr<NextAttempt>> Next(const proto::JobPlan& plan, const JobRunOptions& options,
                                                   int restarts, bool trained, const RunResult& result);
  absl::StatusOr<NextAttempt> AfterLoss(const proto::JobPlan& plan, int restarts) const;
  absl::StatusOr<NextAttempt> AfterChange(const proto::JobPlan& plan, const JobRunOptions& options,
                                          int restarts);
  // The attempt by which the run goes on with `job`, because another shape is not possible.
  absl::StatusOr<NextAttempt> Unchanged(const absl::Status& why, PlacedJob job, int restarts);

  const RunDirectory& directory_;
  const NamedLauncher named_;
  // The job before its last change, until an attempt with the change trains.
  absl::optional<PlacedJob> before_;
  absl::optional<ScaleInbox> inbox_;  // nullopt: the run keeps its numbers of processes.
  // Interrupts stay pending while it has a value: from the first change to the directory until
  // DiscardInterrupts, except while the directory is sent to the chief's machine. Launch handles the
  // interrupts that are pending.
  absl::optional<InterruptsHeld> held_;
  bool follows_ = false;                 // An attempt has followed another one.
  absl::optional<Dashboard> dashboard_;  // The live view shows all attempts.
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_RUN_RUN_ATTEMPT_H_
