#include "deploy/launcher/launcher.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "deploy/hosts/cluster_plan.h"
#include "deploy/launcher/failure_report.h"
#include "deploy/launcher/job_process.h"
#include "deploy/process/exit_status.h"
#include "deploy/process/log_follower.h"
#include "deploy/process/signal_source.h"
#include "google/protobuf/util/json_util.h"
#include "runtime/base/clock.h"
#include "runtime/base/socket.h"
#include "runtime/cluster/job_secret.h"

namespace tethys {
namespace {

// Seconds added to timeouts.start and timeouts.silence, so that the chief reports a silent task before the
// launcher reports a silent chief.
constexpr double kSilenceMargin = 1;
// The longest wait of a process that joins, as a share of timeouts.start.
constexpr double kConnectShare = 0.6;
constexpr double kConnectSeconds = 30;  // The longest wait without a flag, in seconds.
constexpr int kLogTailLines = 20;
constexpr size_t kMostInput = 4096;  // As large as JobCommand::input may be.
// The longest time between two reads of the logs, if they are shown.
constexpr Nanoseconds kLogInterval = 100 * kMillisecond;

struct Task {
  std::string name;  // "worker 1"
  std::string log_path;
  int64_t log_begin;  // Size of the log when this process was started, in bytes.
  const Place* place;
  std::unique_ptr<JobProcess> process;
  bool ended = false;  // The end of the task has been handled.
  int worker = -1;     // A worker's index; -1 for the chief and servers.
  int incarnation = 1;
};

// The size of a file in bytes; 0 if it does not exist.
int64_t FileSize(const std::string& path) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(size);
}

// Runs one job, from the start of its first process to the end of its last one. tasks_[0] is the chief.
class JobLaunch {
 public:
  JobLaunch(const LaunchOptions& options, ProgressListener& listener)
      : options_(options), listener_(listener) {}

  RunResult Run();

 private:
  // The stages of a run. In any stage, the run is over when all tasks have ended. At a stage's deadline a
  // later stage begins.
  enum class Stage {
    // Lasts until the chief has ended, or until a loss, a failed start or an interrupt ends the job.
    kRunning,
    kSettling,  // Waits for tasks to end by themselves.
    kTerminating,
    kKilling,
  };

  absl::Status Spawn(const std::string& role, int index, const Place& place,
                     std::vector<std::string> arguments);
  // The line with the job's secret that the process reads from standard input.
  absl::StatusOr<std::string> SecretOf(const std::string& role, int index);
  absl::Status SpawnTask(const std::string& role, int index, const Place& place, int incarnation);
  void StartOthers(const std::string& chief_address);
  void WaitForEvents();
  void HandleSignals();
  bool AskToSave();
  void ReapTasks();
  void ReactToLosses();
  // True if the job continues although `task` has ended: without this worker, or with its replacement.
  bool Survives(const Task& task, const ProcessExit& exit) const;
  void Replace(int worker, int incarnation);
  void EndLostWorker(const proto::WorkerLost& lost);
  void ReadChief();
  void HandleEvent(const proto::ProgressEvent& event);
  void HandleDeadline();
  void Note(const std::string& text);
  void NoteStragglers();
  void Enter(Stage stage, Nanoseconds patience);
  void SignalAll(int signal);
  bool AllEnded() const;
  RunResult Result() const;

  const LaunchOptions& options_;
  ProgressListener& listener_;
  const MonotonicClock clock_;
  const Nanoseconds begin_ = clock_.Now();
  const JobSecret secret_ = options_.secret.value_or(
      JobSecret{.token = JobToken::Random(), .job_id = absl::StrFormat("%016x", RandomNonce())});
  std::unique_ptr<JobAuthority> authority_;  // Null without TLS.

  SignalSource signals_;
  JobProcesses processes_{secret_.job_id, options_.run_dir + "/log"};
  std::vector<Task> tasks_;
  LogFollower logs_{// Shows log lines; without a function unless logs are shown.
                    [this](const std::string& line) { listener_.OnLogLine(line); }};
  JobEnd end_;
  std::string chief_address_;
  int restarts_ = 0;
  bool started_ = false;  // Training has started.
  bool asked_to_save_ = false;
  Stage stage_ = Stage::kRunning;
  Nanoseconds patience_ = 0;  // The stage's time limit; in kRunning, the longest silence of the chief.
  Nanoseconds deadline_ = 0;
};

RunResult JobLaunch::Run() {
  const Place& place = options_.places.chief;
  std::vector<std::string> arguments = {
      absl::StrCat("--job=", options_.chief_run_dir, "/job.textproto"), "--run_dir=" + options_.chief_run_dir,
      "--listen=" + HostPortText({place.address, options_.chief_port}), "--host=" + place.host};
  if (options_.resume) arguments.push_back("--resume");
  if (options_.secret.has_value()) arguments.push_back("--scheduled");
  const std::string devices = WorkerDevicesText(options_.places.worker_devices);
  if (!devices.empty()) arguments.push_back("--worker_devices=" + devices);
  Enter(Stage::kRunning, FromSeconds(options_.timeouts.start() + kSilenceMargin));
  end_.launch = Spawn("chief", 0, place, std::move(arguments));
  if (end_.launch.ok()) {
    processes_.Connect(options_.places.servers);
    processes_.Connect(options_.places.workers);
  }
  while (!AllEnded()) {
    WaitForEvents();
    HandleSignals();
    processes_.Advance(clock_.Now());
    // Tasks are reaped first. So a task's exit is known when the chief's report on it is read, and a dead
    // chief's last report is read before ReactToLosses.
    ReapTasks();
    ReadChief();
    ReactToLosses();
    if (clock_.Now() >= deadline_) HandleDeadline();
    if (!listener_.Behind()) logs_.ShowNew();
  }
  logs_.ShowRest();
  return Result();
}

absl::Status JobLaunch::Spawn(const std::string& role, int index, const Place& place,
                              std::vector<std::string> arguments) {
  const bool chief = role == "chief";
  arguments.insert(arguments.begin(), role);
  JobCommand command{.arguments = std::move(arguments),
                     .log_path = absl::StrCat(options_.run_dir, "/log/", role, "-", index, ".log"),
                     .read_output = chief};
  TETHYS_ASSIGN_OR_RETURN(command.input, SecretOf(role, index));
  const std::string name = chief ? role : absl::StrCat(role, " ", index);
  TETHYS_RETURN_IF_ERROR(CreateDirectories(options_.run_dir + "/log"));
  if (options_.show_logs) {
    TETHYS_RETURN_IF_ERROR(logs_.Follow(command.log_path, absl::StrCat(name, " on ", place.host)));
  }
  const int64_t log_begin = FileSize(command.log_path);
  absl::StatusOr<std::unique_ptr<JobProcess>> process = processes_.Start(place, command);
  if (!process.ok())
    return Annotate(process.status(), absl::StrCat("cannot start ", name, " on ", place.host));
  tasks_.push_back({name, command.log_path, log_begin, &place, *std::move(process)});
  return absl::OkStatus();
}

absl::StatusOr<std::string> JobLaunch::SecretOf(const std::string& role, int index) {
  JobSecret secret = secret_;
  if (options_.places.tls) {
    if (authority_ == nullptr) {
      TETHYS_ASSIGN_OR_RETURN(authority_, JobAuthority::Create());
    }
    proto::Role parsed = proto::ROLE_UNKNOWN;
    TETHYS_CHECK(proto::Role_Parse(absl::AsciiStrToUpper(role), &parsed));
    TETHYS_ASSIGN_OR_RETURN(secret.tls, authority_->Issue(parsed, index));
  }
  if (role != "ps") secret.data_secrets = options_.data_secrets;
  std::string line = SecretLine(secret) + "\n";
  if (line.size() <= kMostInput) return line;
  return absl::ResourceExhaustedError(
      absl::StrCat("the secrets for ", role, " ", index, " take ", line.size(), " bytes, at most ",
                   kMostInput, " can be handed over: leave only what this job needs in the file of secrets"));
}

absl::Status JobLaunch::SpawnTask(const std::string& role, int index, const Place& place, int incarnation) {
  std::vector<std::string> arguments = {"--chief=" + chief_address_, absl::StrCat("--index=", index),
                                        absl::StrCat("--bind=", place.address), "--host=" + place.host};
  if (incarnation > 1) arguments.push_back(absl::StrCat("--incarnation=", incarnation));
  // Shorter than the chief's patience, so that the process can still say why it does not join.
  const double patience = kConnectShare * options_.timeouts.start();
  if (patience < kConnectSeconds) {
    arguments.push_back(
        absl::StrCat("--connect_timeout=", std::max<int64_t>(1, static_cast<int64_t>(patience))));
  }
  for (const std::string& folder : options_.cuda_library_path) {
    if (role == "worker") arguments.push_back("--cuda_library_path=" + folder);
  }
  TETHYS_RETURN_IF_ERROR(Spawn(role, index, place, std::move(arguments)));
  if (role == "worker") tasks_.back().worker = index;
  tasks_.back().incarnation = incarnation;
  return absl::OkStatus();
}

void JobLaunch::StartOthers(const std::string& chief_address) {
  chief_address_ = chief_address;
  const auto start = [&](const char* role, const std::vector<Place>& places) {
    for (size_t i = 0; i < places.size() && end_.launch.ok(); ++i) {
      end_.launch = SpawnTask(role, static_cast<int>(i), places[i], 1);
    }
  };
  start("ps", options_.places.servers);
  start("worker", options_.places.workers);
  if (!end_.launch.ok()) Enter(Stage::kTerminating, FromSeconds(options_.timeouts.shutdown()));
}

void JobLaunch::WaitForEvents() {
  // The chief's descriptor is -1, which poll ignores, once it is closed or if the chief runs elsewhere.
  std::vector<pollfd> fds = {{signals_.fd(), POLLIN, 0}};
  if (!tasks_.empty()) fds.push_back({tasks_[0].process->lines().fd(), POLLIN, 0});
  processes_.AddTo(fds);
  const Nanoseconds left = std::max<Nanoseconds>(deadline_ - clock_.Now(), 0);
  const Nanoseconds longest = options_.show_logs ? kLogInterval : kSecond;
  poll(fds.data(), fds.size(), static_cast<int>(std::min(left / kMillisecond + 1, longest / kMillisecond)));
}

void JobLaunch::HandleSignals() {
  while (const int number = signals_.Next()) {
    if (number == SIGCHLD) continue;
    if (stage_ == Stage::kTerminating || stage_ == Stage::kKilling) {
      Enter(Stage::kKilling, kSecond);  // From here on, another interrupt kills all tasks at once.
      continue;
    }
    if (!end_.verdict.has_value() && end_.lost.empty()) end_.interrupt = number;
    if (AskToSave()) continue;
    Enter(Stage::kTerminating, FromSeconds(options_.timeouts.shutdown()));
  }
}

// On the first interrupt during training, asks the chief to save a checkpoint and end the job. Returns false
// on a later interrupt, or if the chief cannot do that now.
bool JobLaunch::AskToSave() {
  const bool can = stage_ == Stage::kRunning && started_ && end_.lost.empty() && !end_.verdict.has_value() &&
                   !tasks_[0].ended;
  if (!can || asked_to_save_) return false;
  asked_to_save_ = true;
  tasks_[0].process->Signal(SIGINT);
  Note("interrupted: saving a checkpoint; another interrupt ends the job at once");
  return true;
}

void JobLaunch::ReapTasks() {
  const bool asked_to_end = stage_ == Stage::kTerminating || stage_ == Stage::kKilling;
  for (size_t i = 0; i < tasks_.size(); ++i) {  // Not an iterator: Replace appends to tasks_.
    Task& task = tasks_[i];
    if (task.ended || !task.process->Poll().has_value()) continue;
    task.ended = true;
    const ProcessExit exit = *task.process->Poll();
    if (Survives(task, exit)) {
      end_.survived.push_back({task.name, task.place->host, exit});
      Replace(task.worker, task.incarnation + 1);
      continue;
    }
    // A worker or server may exit cleanly before the chief reports the end.
    if (!asked_to_end && !exit.clean())
      end_.lost.push_back({task.name, task.place->host, exit, end_.verdict.has_value()});
  }
}

bool JobLaunch::Survives(const Task& task, const ProcessExit& exit) const {
  // Before training starts, the job needs every worker: a killed one must be restarted, and an error that a
  // worker reports ends the job.
  const bool spared = started_ || restarts_ < options_.max_restarts;
  const bool mishap = exit.code == kExitMishap && started_;
  return options_.survives_worker_loss && task.worker >= 0 && ((exit.abrupt() && spared) || mishap) &&
         stage_ == Stage::kRunning;
}

void JobLaunch::Replace(int worker, int incarnation) {
  if (restarts_ == options_.max_restarts) return;
  ++restarts_;
  end_.launch = SpawnTask("worker", worker, options_.places.workers[worker], incarnation);
  if (!end_.launch.ok()) Enter(Stage::kTerminating, FromSeconds(options_.timeouts.shutdown()));
}

// The chief has given the worker up, but the worker's process may be alive: stopped, or cut off from the
// chief.
void JobLaunch::EndLostWorker(const proto::WorkerLost& lost) {
  for (Task& task : tasks_) {
    if (task.worker == lost.index() && task.incarnation == static_cast<int>(lost.incarnation())) {
      task.process->Signal(SIGKILL);
    }
  }
}

void JobLaunch::ReactToLosses() {
  const bool ending = stage_ == Stage::kTerminating || stage_ == Stage::kKilling;
  if (ending || end_.verdict.has_value() || tasks_.empty()) return;
  if (tasks_[0].ended) {
    Enter(Stage::kTerminating, FromSeconds(options_.timeouts.shutdown()));
  } else if (!end_.lost.empty() && stage_ == Stage::kRunning) {
    Enter(Stage::kSettling, options_.verdict_grace);
  }
}

void JobLaunch::ReadChief() {
  while (!tasks_.empty()) {
    const std::optional<std::string> line = tasks_[0].process->lines().Next();
    if (!line.has_value()) return;
    proto::ProgressEvent event;
    google::protobuf::util::JsonParseOptions json;
    json.ignore_unknown_fields = true;
    if (!google::protobuf::util::JsonStringToMessage(*line, &event, json).ok()) event.set_note(*line);
    if (stage_ == Stage::kRunning) deadline_ = clock_.Now() + patience_;
    HandleEvent(event);
  }
}

void JobLaunch::HandleEvent(const proto::ProgressEvent& event) {
  if (event.has_listening() && tasks_.size() == 1 && stage_ == Stage::kRunning) {
    StartOthers(event.listening().address());
  } else if (event.has_started() && stage_ == Stage::kRunning) {
    started_ = true;
    Enter(Stage::kRunning, FromSeconds(options_.timeouts.silence() + kSilenceMargin));
  } else if (event.has_worker_lost()) {
    EndLostWorker(event.worker_lost());
  } else if (event.has_progress()) {
    end_.last_step = event.progress().step();
  } else if (event.has_epoch()) {
    end_.last_step = event.epoch().step();
  } else if (event.has_finished()) {
    end_.verdict = event.finished();
    if (stage_ == Stage::kRunning) {
      Enter(Stage::kSettling,
            event.finished().ok() ? FromSeconds(options_.timeouts.shutdown()) : options_.verdict_grace);
    }
  }
  listener_.OnEvent(event);
}

void JobLaunch::HandleDeadline() {
  switch (stage_) {
    case Stage::kRunning:
      end_.chief_silent_for = ToSeconds(patience_);
      [[fallthrough]];
    case Stage::kSettling:
      NoteStragglers();
      Enter(Stage::kTerminating, FromSeconds(options_.timeouts.shutdown()));
      return;
    case Stage::kTerminating:
      Enter(Stage::kKilling, kSecond);
      return;
    case Stage::kKilling:
      processes_.Disconnect();
      Enter(Stage::kKilling, kSecond);
      return;
  }
}

void JobLaunch::Note(const std::string& text) {
  proto::ProgressEvent event;
  event.set_note(text);
  listener_.OnEvent(event);
}

// Tells the user which tasks are still running although the job is done.
void JobLaunch::NoteStragglers() {
  if (!end_.verdict.has_value() || !end_.verdict->ok()) return;
  for (const Task& task : tasks_) {
    if (!task.ended) Note(absl::StrCat(task.name, " did not end by itself; ended it"));
  }
}

void JobLaunch::Enter(Stage stage, Nanoseconds patience) {
  stage_ = stage;
  patience_ = patience;
  deadline_ = clock_.Now() + patience;
  if (stage == Stage::kTerminating) SignalAll(SIGTERM);
  if (stage == Stage::kKilling) SignalAll(SIGKILL);
}

void JobLaunch::SignalAll(int signal) {
  for (Task& task : tasks_) task.process->Signal(signal);
}

bool JobLaunch::AllEnded() const {
  return std::all_of(tasks_.begin(), tasks_.end(), [](const Task& task) { return task.ended; });
}

RunResult JobLaunch::Result() const {
  RunResult result;
  FirstFailure failure = FindFirstFailure(end_, options_.places.chief.host);
  result.status = failure.status;
  result.culprit = failure.task;
  result.interrupt = end_.interrupt;
  result.last_step = end_.last_step;
  result.seconds = ToSeconds(clock_.Now() - begin_);
  for (const Task& task : tasks_) {
    if (task.name != failure.task) continue;
    result.host = task.place->host;
    const std::string tail =
        LogTail(task.log_path, kLogTailLines, task.log_begin, ReasonOf(failure, result.host));
    if (!tail.empty()) {
      result.log_tail = absl::StrCat("  end of ", task.log_path, ":\n", tail);
    }
  }
  return result;
}

}  // namespace

RunResult Launch(const LaunchOptions& options, ProgressListener& listener) {
  // Writing to a broken connection, or to a closed display, then returns an error.
  signal(SIGPIPE, SIG_IGN);
  return JobLaunch(options, listener).Run();
}

}  // namespace tethys
