// Finds the reason why a job failed, for the message to the user. The loss of a process causes errors in
// other processes; these later errors are not reported. Pure; any thread.
#ifndef TETHYS_DEPLOY_LAUNCHER_FAILURE_REPORT_H_
#define TETHYS_DEPLOY_LAUNCHER_FAILURE_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "deploy/process/subprocess.h"
#include "proto/telemetry.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// A process that ended with an error before the launcher asked it to end.
struct LostTask {
  std::string name;  // The task's name, such as "worker 1" or "chief".
  std::string host;
  ProcessExit exit;
  bool after_verdict = false;  // The process ended after the chief had reported the job's end.
  int incarnation = 1;         // The incarnation of a worker.
  // The launcher killed the process, because the chief had declared the worker lost.
  bool given_up = false;
};

// A text that says on which host and how the process of the task ended and, if it is known, the cause:
// "worker 1 on node2 was killed by signal 9 (Killed)".
std::string ExitOf(const LostTask& task);

struct JobEnd {
  int interrupt = 0;                            // The signal by which the user ended the job; 0: none.
  bool changes = false;                         // The user asked for another shape of the job.
  double chief_silent_for = 0;                  // Seconds; 0: the chief was not silent.
  absl::Status launch = {};                     // If not OK, a process could not be started.
  std::optional<proto::Finished> verdict = {};  // The chief's report on how the job ended.
  std::vector<LostTask> lost = {};              // Lost processes, in the order in which they ended.
  std::vector<LostTask> survived = {};          // Lost workers without which the job continued.
  int restarts = 0;                             // The number of processes that were started again.
  int64_t last_step = 0;
};

struct FirstFailure {
  absl::Status status;  // OK: the job is done.
  std::string task;     // The task whose log has the details, or empty.
  std::string error;    // The chief's error, if the status contains it.
  // True if the job failed because it lost one process: the process was killed, cut off or silent, or it
  // ended with a failure that the same process need not have again (MayBefallOneProcess).
  bool loss = false;
};

// OK if the chief's verdict is success. Otherwise the first of these that applies:
//   1. the user's interrupt
//   2. a process that could not be started
//   3. a process that was killed or whose connection broke, unless the chief blamed another task before
//   4. the error in the chief's verdict
//   5. the chief's silence
//   6. the first process that exited with an error
FirstFailure FindFirstFailure(const JobEnd& end, const std::string& chief_host);

// The error that the failed task reported to the chief and also wrote to its own log: the chief's error
// without the prefix "worker 1 on HOST: ".
std::string ReasonOf(const FirstFailure& failure, const std::string& host);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_FAILURE_REPORT_H_
