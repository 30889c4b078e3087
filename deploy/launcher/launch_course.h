// The state machine of a launch: decides when the processes of a job are started, restarted and ended, and
// how the launch ends. Pure: the inputs are exits of processes, the chief's reports, signals to the launcher
// and the time; the outputs are actions. The launcher (deploy/launcher/launcher.cc), which owns the processes
// and pipes, passes the inputs and carries out the actions.
//
//   kRunning --the chief's verdict, or a loss--> kSettling --its deadline--> kTerminating --> kKilling
//
// If a chief that keeps a log is killed or silent during training, another process takes over (one restart).
// The job then stays in kRunning, unless that process, too, ends before it has taken over.
//
// An interrupt, the chief's end or silence, or a process that cannot be started leads to kTerminating at
// once. The launch is over when all tasks have ended, in any stage.
#ifndef TETHYS_DEPLOY_LAUNCHER_LAUNCH_COURSE_H_
#define TETHYS_DEPLOY_LAUNCHER_LAUNCH_COURSE_H_

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/variant.h"
#include "deploy/launcher/failure_report.h"
#include "deploy/process/subprocess.h"
#include "proto/job.pb.h"
#include "proto/telemetry.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace tethys {

struct LaunchTask {
  std::string role = "chief";  // "chief", "ps" or "worker".
  int index = 0;
  int incarnation = 1;  // Above 1: a process that replaces a worker, or takes over from a chief.
  bool operator==(const LaunchTask&) const = default;

  std::string name() const;  // "worker 1", "chief".
};

// The result of the start must be passed to OnStarted or OnStartFailed before any other event.
struct StartTask {
  LaunchTask task;
};
struct SignalTask {
  size_t number = 0;  // Tasks are numbered in the order in which they were started; the first chief is 0.
  int signal = 0;
};
struct NoteForUser {
  std::string text;
};
struct DisconnectHosts {};  // Processes on other machines count as lost from now on.
using LaunchAction = absl::variant<StartTask, SignalTask, NoteForUser, DisconnectHosts>;
using LaunchActions = std::vector<LaunchAction>;

// Invariants:
//  1. Stages are entered in their order. Entering the current stage again sets a later deadline.
//  2. No process is started after kRunning.
//  3. At most max_restarts processes are started again.
class LaunchCourse {
 public:
  struct Options {
    std::string chief_host;
    std::vector<std::string> server_hosts = {};  // The host of each server, by the server's index.
    std::vector<std::string> worker_hosts = {};  // The host of each worker, by the worker's index.
    proto::Timeouts timeouts = {};
    Nanoseconds verdict_grace = kSecond;  // This and the fields below: as in LaunchOptions.
    bool survives_worker_loss = false;
    bool survives_server_loss = false;
    bool restarts_before_training = true;
    int max_restarts = 0;
    bool chief_keeps_log = false;
  };
  explicit LaunchCourse(Options options) : options_(std::move(options)) {}

  // ---- events

  // Starts the chief.
  void Begin(Nanoseconds now, LaunchActions& actions);
  // The task of the last StartTask has been started.
  void OnStarted(LaunchActions& actions);
  void OnStartFailed(const absl::Status& status, Nanoseconds now, LaunchActions& actions);
  // A signal by which the user ends the launch. During a save for OnChange, the job ends after the save.
  // While another chief takes over, that chief saves and ends the job.
  void OnInterrupt(int signal, Nanoseconds now, LaunchActions& actions);
  // The user asks for another shape of the job. During training, the chief saves a checkpoint and ends the
  // job (JobEnd::changes); at other times, the call does nothing.
  void OnChange(LaunchActions& actions);
  // The process of a task has ended.
  void OnExit(size_t number, const ProcessExit& exit, LaunchActions& actions);
  // A report of the chief. The exit of a process must be passed to OnExit before the chief's reports about
  // this exit.
  void OnReport(const proto::ProgressEvent& event, Nanoseconds now, LaunchActions& actions);
  // Call this after all events up to `now` have been passed to the LaunchCourse.
  void OnTick(Nanoseconds now, LaunchActions& actions);

  // ---- state

  // The time at which OnTick must be called even if nothing has happened.
  Nanoseconds deadline() const { return deadline_; }
  bool ended() const;
  const JobEnd& end() const { return end_; }
  size_t chief() const { return chief_; }  // The number of the newest chief.

 private:
  enum class Stage {
    kRunning,   // Lasts until the chief has ended, or until a loss, a failed start or an interrupt ends the
                // job.
    kSettling,  // Waits for tasks to end by themselves.
    kTerminating,
    kKilling,
  };
  struct Started {
    LaunchTask task;
    bool ended = false;
    // The launcher has killed the process, because the chief has declared the task lost.
    bool given_up = false;
  };

  bool ending() const { return stage_ == Stage::kTerminating || stage_ == Stage::kKilling; }
  const std::string& HostOf(const LaunchTask& task) const;
  // True if the job continues although `task` has ended: without this task, or with its replacement.
  bool Survives(const LaunchTask& task, const ProcessExit& exit) const;
  // Starts replacements of the tasks in failed_, as far as max_restarts allows, unless the chief has ended.
  void ReplaceFailed(LaunchActions& actions);
  // True if another process may take over from the chief.
  bool CanTakeOver() const;
  // No process has taken over from lost_chief_, whose loss therefore ends the launch.
  void FailTakeover();
  bool chief_ended() const { return tasks_[chief_].ended; }
  bool AskToSave(const char* why, LaunchActions& actions);
  void StartNext(LaunchActions& actions);
  void EndLostTask(const proto::TaskLost& lost, LaunchActions& actions);
  void OnDeadline(Nanoseconds now, LaunchActions& actions);
  void NoteStragglers(LaunchActions& actions);
  void Enter(Stage stage, Nanoseconds patience, Nanoseconds now, LaunchActions& actions);
  void Terminate(Nanoseconds now, LaunchActions& actions);

  const Options options_;

  std::vector<Started> tasks_;
  std::deque<LaunchTask> to_start_;  // The first of these tasks is being started.
  // Tasks that ended although the job continues, and whose replacements have not been started. After an
  // error, the replacement starts with the chief's next report, which shows that the chief is alive.
  std::vector<LaunchTask> failed_;
  size_t chief_ = 0;
  // A lost chief whose successor has not taken over yet.
  absl::optional<LostTask> lost_chief_;
  bool chief_killed_ = false;  // The launcher has killed the chief, because it was silent.
  JobEnd end_;
  bool training_ = false;  // Training has started.
  bool asked_to_save_ = false;
  Stage stage_ = Stage::kRunning;
  Nanoseconds patience_ = 0;  // The stage's time limit; in kRunning, the longest silence of the chief.
  Nanoseconds deadline_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_LAUNCH_COURSE_H_
