// Runs one job as processes, on this machine or on other machines. Starts the chief, then servers and
// workers, and follows the chief's progress. Ends all processes when the job is done, when a process is lost,
// or when the user interrupts. During training, the first interrupt makes the chief save a checkpoint and end
// the job; the second interrupt ends the job at once.
//
// Called by `tethys train` and `tethys compare`. Blocks until every process it started is reaped. Uses no
// gRPC and no threads. While it runs, it handles SIGINT, SIGTERM, SIGHUP and SIGCHLD of this process.
#ifndef TETHYS_DEPLOY_LAUNCHER_LAUNCHER_H_
#define TETHYS_DEPLOY_LAUNCHER_LAUNCHER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "deploy/launcher/failure_report.h"
#include "deploy/process/place.h"
#include "proto/job.pb.h"
#include "proto/telemetry.pb.h"
#include "runtime/base/status.h"
#include "runtime/cluster/job_secret.h"

namespace tethys {

// Receives the chief's reports, in order. Must not block.
class ProgressListener {
 public:
  virtual ~ProgressListener() = default;
  virtual void OnEvent(const proto::ProgressEvent& event) = 0;
  // A line that a process wrote to its log; called if LaunchOptions::show_logs is set.
  virtual void OnLogLine(const std::string& line) = 0;
  // True if much output waits to be shown. While it is true, the launcher reads no new log lines.
  virtual bool Behind() const { return false; }
};

// Forwards all calls to another listener. A subclass implements OnEvent, which must forward each event as
// well.
class ForwardingListener : public ProgressListener {
 public:
  explicit ForwardingListener(ProgressListener& next) : next_(next) {}
  void OnLogLine(const std::string& line) override { next_.OnLogLine(line); }
  bool Behind() const override { return next_.Behind(); }

 protected:
  ProgressListener& next() { return next_; }

 private:
  ProgressListener& next_;
};

struct LaunchOptions {
  Places places;
  std::string run_dir;        // Must exist and be locked by the caller; logs go to run_dir/log.
  std::string chief_run_dir;  // The run directory on the chief's machine, with job.textproto.
  int chief_port = 0;         // The chief's port; 0: any free port.
  bool resume = false;
  std::vector<std::string> cuda_library_path = {};  // Folders with NVIDIA's libraries, for workers.
  // Set if a scheduler starts some of the processes; by default the launcher draws a random secret.
  absl::optional<JobSecret> secret = {};
  std::string data_secrets = {};  // The secrets for data, for the chief and the workers (JobSecret).
  proto::Timeouts timeouts;
  // After a process is lost, the time for the chief to report its verdict and for the other processes to end
  // by themselves.
  Nanoseconds verdict_grace = 1 * kSecond;
  // If true, the job continues without a worker that died, or that failed during training with kExitMishap
  // (an error that a replacement may not have). Lost workers are restarted, as far as
  // max_restarts allows.
  bool survives_worker_loss = false;
  // If true, the job also continues after the loss of a server during training, if max_restarts still allows
  // a replacement.
  bool survives_server_loss = false;
  // If true, a worker that died before training began is restarted as well; if false, its death ends the job.
  bool restarts_before_training = true;
  int max_restarts = 0;  // Replaced workers, servers and chiefs together.
  // If true, the chief keeps a log, and another process takes over from a chief that is lost during training.
  bool chief_keeps_log = false;
  // True: the user asks for another shape of the job. Called several times a second. The job is then saved
  // and ended once it trains (RunResult::changes), and the caller starts it again. Empty: the shape cannot
  // change.
  std::function<bool()> asks_for_shape = {};
  // If true, every line of every log also goes to OnLogLine, prefixed by "[worker 3 on slave2] ".
  bool show_logs = false;
};

struct RunResult {
  // OK: the job is done. Cancelled: the user interrupted. Otherwise the first failure; the message names the
  // process, its host, what happened to the process, and the step.
  absl::Status status;
  std::string culprit;  // The process that failed first, "worker 1"; or empty.
  // The culprit's host, as the user calls it; empty if this launcher did not start the culprit.
  std::string host;
  std::string log_tail;  // Lines to print after the status: the end of the culprit's log.
  int interrupt = 0;     // The signal by which the user interrupted; 0: none.
  bool changes = false;  // True: the job was ended because the user asked for another shape of it.
  std::string change;  // The new shape, "4 workers and 2 servers"; set by the caller of Launch if `changes`.
  int64_t last_step = 0;
  double seconds = 0;
  std::vector<LostTask> survived = {};  // Lost workers without which the job continued.
  int restarts = 0;                     // The number of processes that were started again.
  bool loss = false;                    // As in FirstFailure.
};

// Invariant: once Launch has returned or this process has died, no process that Launch started stays alive.
RunResult Launch(const LaunchOptions& options, ProgressListener& listener);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_LAUNCHER_H_
