// Finds why a job failed, for the message to the user. When a process is lost, other errors follow from the
// first one and are not reported. Pure; any thread.
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
  std::string name;  // "worker 1", "chief".
  std::string host;
  ProcessExit exit;
  bool after_verdict = false;  // The chief had already reported the job's end.
};

struct JobEnd {
  int interrupt = 0;                            // The signal by which the user ended the job; 0: none.
  double chief_silent_for = 0;                  // Seconds; 0: it was not silent.
  absl::Status launch = {};                     // If not OK, a process could not be started.
  std::optional<proto::Finished> verdict = {};  // The chief's report.
  std::vector<LostTask> lost = {};              // In order of their ends.
  std::vector<LostTask> survived = {};          // Lost workers without which the job continued.
  int64_t last_step = 0;
};

struct FirstFailure {
  absl::Status status;  // OK: the job is done.
  std::string task;     // The task whose log says more, or empty.
  std::string error;    // The chief's error, if the status contains it.
};

// The first of these that applies: the user's interrupt; a process that could not be started; a process
// killed by a signal or cut off before the chief's verdict, or the culprit it names; the chief's verdict; its
// silence; the first process that exited with an error.
FirstFailure FindFirstFailure(const JobEnd& end, const std::string& chief_host);

// The reason that the task itself reported and also wrote to its log: the chief's error without the task's
// name, "worker 1 on HOST: ".
std::string ReasonOf(const FirstFailure& failure, const std::string& host);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_FAILURE_REPORT_H_
