// A JobController that keeps a log of its inputs (chief_log.h), and what the successor of a lost chief must
// know about the sessions of the tasks. Thread-safe.
//
// While the job trains or evaluates, a log that has become long can be replaced by a new one, which begins
// with the state of this class and of all that acts on the controller's actions:
//
//   if (controller.SnapshotDue()) ... controller.BeginNewLog(record)
#ifndef TETHYS_RUNTIME_CHIEF_LOGGED_CONTROLLER_H_
#define TETHYS_RUNTIME_CHIEF_LOGGED_CONTROLLER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "proto/chief_log.pb.h"
#include "proto/chief_snapshot.pb.h"
#include "proto/plan.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/chief/chief_actions.h"
#include "runtime/chief/chief_log.h"
#include "runtime/chief/job_controller.h"
#include "runtime/cluster/task_id.h"

namespace tethys {

class LoggedController {
 public:
  // `host`: the name of the chief's machine.
  LoggedController(std::unique_ptr<JobController> controller, const std::string& host, const Clock& clock);

  // Recreates the state that BeginNewLog wrote; `plan` must be the plan of that controller. InvalidArgument:
  // no controller of this plan can have written `state`.
  static absl::StatusOr<std::unique_ptr<LoggedController>> Restore(const proto::JobPlan& plan,
                                                                   const proto::LoggedControllerState& state,
                                                                   const std::string& host,
                                                                   const Clock& clock);

  // True if the log has become so long that it should be replaced, and the controller is in a state in which
  // it can be: training has begun, no save is in progress, and the job is not ending.
  bool SnapshotDue();
  // Completes the snapshot in `record` by the state of this object, and lets a new log with the record
  // replace the log. Requires that the rest of the snapshot shows the effects of all inputs so far, except
  // `admit`. Errors: those of ChiefLog::Replace.
  absl::Status BeginNewLog(proto::ChiefRecord& record);

  // Sets the log of all later inputs. Inputs are not logged before this call.
  void Log(std::unique_ptr<ChiefLog> log);

  // Gives the controller a new input, of this moment: sets the other fields of `record`. Returns the answer
  // to `admit`, and OK for other inputs.
  absl::Status Give(proto::ChiefRecord& record, Actions& actions);
  // Gives the controller an input from the log of a lost chief.
  void Repeat(const proto::ChiefRecord& record, Actions& actions);

  // The number of messages that have come in the task's session. Aborted: no session of this incarnation is
  // open.
  absl::StatusOr<int64_t> MessagesOf(TaskId task, uint32_t incarnation);
  // Adds the number of messages to a Pong. Returns the incarnation to which orders to the task are sent.
  uint32_t Complete(SendOrder& action);

  void Read(absl::FunctionRef<void(const JobController& controller)> read);

 private:
  // The session of a task's newest process.
  struct Session {
    uint32_t incarnation = 0;
    int64_t messages = 0;
    bool gone = false;
  };
  void Save(proto::LoggedControllerState& state) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status RestoreSessions(const proto::LoggedControllerState& state);
  absl::Status Apply(const proto::ChiefRecord& record, Actions& actions) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string host_;
  const Clock& clock_;
  Mutex mu_;
  const std::unique_ptr<JobController> controller_ ABSL_PT_GUARDED_BY(mu_);
  std::unique_ptr<ChiefLog> log_ ABSL_GUARDED_BY(mu_);  // Null: inputs are not logged.
  std::map<TaskId, Session> sessions_ ABSL_GUARDED_BY(mu_);
  // The remark of the last tick (proto::ChiefRecord). The controller reads it under the lock.
  std::string overload_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_LOGGED_CONTROLLER_H_
