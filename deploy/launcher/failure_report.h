// Why a job failed, in the words the user reads. Of all that goes wrong when a process is lost, one thing was
// first; the rest follows from it and is not told. Choosing is pure; the report reads the ends of log files.
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

// A process that ended, not cleanly, before the launcher asked it to.
struct LostTask {
  std::string name;  // "worker 1", "chief".
  std::string host;
  ProcessExit exit;
  bool after_verdict = false;  // The chief had reported the job's end by then.
};

struct JobEnd {
  int interrupt = 0;                            // The signal with which the user ended the job; 0: none.
  double chief_silent_for = 0;                  // Seconds; 0: it was not silent.
  absl::Status launch = {};                     // Not OK: a process could not be started.
  std::optional<proto::Finished> verdict = {};  // The chief's.
  std::vector<LostTask> lost = {};              // In order of time.
  std::vector<LostTask> survived = {};          // Workers that the job went on without.
  int64_t last_step = 0;
};

struct FirstFailure {
  absl::Status status;  // OK: the job is done.
  std::string task;     // Whose log says more; empty: nobody's.
};

// In order: the user's interrupt; a process that could not be started; a process killed by a signal, or cut
// off from here, before the chief knew of anything, or the one it blames; the chief's own verdict; its
// silence; the first process that gave up.
FirstFailure FindFirstFailure(const JobEnd& end, const std::string& chief_host);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_FAILURE_REPORT_H_
