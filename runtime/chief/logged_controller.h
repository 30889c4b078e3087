// A JobController that keeps a log of its inputs (chief_log.h), and what the successor of a lost chief must
// know about the sessions of the tasks. Thread-safe.
#ifndef TETHYS_RUNTIME_CHIEF_LOGGED_CONTROLLER_H_
#define TETHYS_RUNTIME_CHIEF_LOGGED_CONTROLLER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "proto/chief_log.pb.h"
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
