// Runs one job as processes, on this machine or on others: starts the chief, then servers and workers,
// follows the chief's progress, and ends them all: when the job is done, when any of them is lost, or when
// the user interrupts: the first interrupt of a job that trains ends it with a checkpoint, the second at
// once.
//
// Called by `tethys train` and `tethys compare`. Blocks until every process it started is reaped. Uses no
// gRPC and no threads. While it runs, SIGINT, SIGTERM, SIGHUP and SIGCHLD of this process are its own.
#ifndef TETHYS_DEPLOY_LAUNCHER_LAUNCHER_H_
#define TETHYS_DEPLOY_LAUNCHER_LAUNCHER_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "deploy/process/place.h"
#include "proto/job.pb.h"
#include "proto/telemetry.pb.h"
#include "runtime/base/status.h"
#include "runtime/cluster/job_secret.h"

namespace tethys {

// Shown what the chief reports, in order. Must not block.
class ProgressListener {
 public:
  virtual ~ProgressListener() = default;
  virtual void OnEvent(const proto::ProgressEvent& event) = 0;
  // What it was handed is not shown yet: logs, which their files keep, are to wait.
  virtual bool Behind() const { return false; }
};

struct LaunchOptions {
  Places places;
  std::string run_dir;        // Exists, locked by the caller; logs go to run_dir/log.
  std::string chief_run_dir;  // On the chief's machine; holds job.textproto.
  int chief_port = 0;         // 0: any free one.
  bool resume = false;
  std::vector<std::string> cuda_library_path = {};  // Of workers, as in TaskOptions.
  // Given where somebody else starts some of the processes; absent: made up here.
  absl::optional<JobSecret> secret = {};
  proto::Timeouts timeouts;
  // After a loss, the chief has so long to say what it knows, and the others to end by themselves.
  Nanoseconds verdict_grace = 1 * kSecond;
  // The job goes on without a worker that died, or that after the start ended with kExitMishap, and so many
  // of them are started again, over the whole job.
  bool survives_worker_loss = false;
  int max_restarts = 0;
  // Every line of a log also goes to the listener as a note, behind "[worker 3 on slave2] ".
  bool show_logs = false;
};

struct RunResult {
  // OK: the job is done. Otherwise the first failure by time: which process, where, what became of it, the
  // step. Cancelled: the user interrupted.
  absl::Status status;
  std::string culprit;   // "worker 1": the process that failed first; empty: nobody in particular.
  std::string log_tail;  // Lines to print after it: the end of that process's log.
  int64_t last_step = 0;
  double seconds = 0;
};

// Invariant: when this returns, or this process dies in whatever way, no process it started lives on.
RunResult Launch(const LaunchOptions& options, ProgressListener& listener);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_LAUNCHER_H_
