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
#include "absl/types/variant.h"
#include "deploy/hosts/cluster_plan.h"
#include "deploy/launcher/failure_report.h"
#include "deploy/launcher/job_process.h"
#include "deploy/launcher/launch_course.h"
#include "deploy/process/log_follower.h"
#include "deploy/process/signal_source.h"
#include "google/protobuf/util/json_util.h"
#include "runtime/base/clock.h"
#include "runtime/base/socket.h"
#include "runtime/cluster/job_secret.h"

namespace tethys {
namespace {

// The longest time for which a process tries to connect to the chief, as a share of timeouts.start.
constexpr double kConnectShare = 0.6;
constexpr double kConnectSeconds = 30;  // The default of --connect_timeout, in seconds.
constexpr int kLogTailLines = 20;
constexpr size_t kMostInput = 4096;  // The most bytes of JobCommand::input.
// The longest time between two reads of the logs, if they are shown, and between two calls of asks_for_shape.
constexpr Nanoseconds kPollInterval = 100 * kMillisecond;

struct Task {
  std::string name;  // The task's name, such as "worker 1".
  std::string log_path;
  int64_t log_begin;  // Size of the log when this process was started, in bytes.
  const Place* place;
  std::unique_ptr<JobProcess> process;
  bool ended = false;  // The LaunchCourse has been told that the task has ended.
};

// The size of a file in bytes; 0 if it does not exist.
int64_t FileSize(const std::string& path) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(size);
}

LaunchCourse::Options CourseOptions(const LaunchOptions& options) {
  LaunchCourse::Options course = {.chief_host = options.places.chief.host,
                                  .timeouts = options.timeouts,
                                  .verdict_grace = options.verdict_grace,
                                  .survives_worker_loss = options.survives_worker_loss,
                                  .survives_server_loss = options.survives_server_loss,
                                  .restarts_before_training = options.restarts_before_training,
                                  .max_restarts = options.max_restarts,
                                  .chief_keeps_log = options.chief_keeps_log};
  for (const Place& place : options.places.servers) course.server_hosts.push_back(place.host);
  for (const Place& place : options.places.workers) course.worker_hosts.push_back(place.host);
  return course;
}

// Carries out the actions of a LaunchCourse on processes, and passes the exits of the processes, the chief's
// reports, signals and the time to the course. Tasks have the same numbers as in the course; tasks_[0] is the
// chief.
class JobLaunch {
 public:
  JobLaunch(const LaunchOptions& options, ProgressListener& listener)
      : options_(options), listener_(listener), course_(CourseOptions(options)) {}

  RunResult Run();

 private:
  void Do(LaunchActions actions);
  void Do(const StartTask& action, LaunchActions& next);
  void Do(const SignalTask& action, LaunchActions&) {
    const Task& task = tasks_[action.number];
    if (task.process != nullptr) task.process->Signal(action.signal);
  }
  void Do(const NoteForUser& action, LaunchActions&);
  void Do(const DisconnectHosts&, LaunchActions&) { processes_.Disconnect(); }
  // Passes an event to course_, and carries out the resulting actions. `event` is a function that calls
  // course_ with the list of actions to fill.
  template <typename Event>
  void Tell(Event event) {
    LaunchActions actions;
    event(actions);
    Do(std::move(actions));
  }

  absl::Status Spawn(const LaunchTask& task);
  const Place& PlaceOf(const LaunchTask& task) const;
  std::vector<std::string> ChiefArguments() const;
  std::vector<std::string> ArgumentsOf(const LaunchTask& task) const;
  // The line with the job's secret that the process reads from standard input.
  absl::StatusOr<std::string> SecretOf(const std::string& role, int index);
  void WaitForEvents();
  void HandleSignals();
  void ReapTasks();
  void ReapTask(size_t number);
  void ReadChief();
  RunResult Result() const;

  const LaunchOptions& options_;
  ProgressListener& listener_;
  const MonotonicClock clock_;
  const Nanoseconds begin_ = clock_.Now();
  const JobSecret secret_ = options_.secret.value_or(
      JobSecret{.token = JobToken::Random(), .job_id = absl::StrFormat("%016x", RandomNonce())});
  std::unique_ptr<JobAuthority> authority_;  // The job's certificate authority; null without TLS.

  SignalSource signals_;
  JobProcesses processes_{secret_.job_id, options_.run_dir + "/log"};
  LaunchCourse course_;
  std::vector<Task> tasks_;
  // Passes new lines of the processes' logs to listener_, if show_logs is set.
  LogFollower logs_{[this](const std::string& line) { listener_.OnLogLine(line); }};
  JobProcess& Chief() { return *tasks_[course_.chief()].process; }

  std::string chief_address_;
  int64_t last_event_ = 0;  // The number of the newest numbered event of the chief.
};

RunResult JobLaunch::Run() {
  Tell([&](LaunchActions& actions) { course_.Begin(clock_.Now(), actions); });
  if (!tasks_.empty()) {
    processes_.Connect(options_.places.servers);
    processes_.Connect(options_.places.workers);
  }
  while (!course_.ended()) {
    WaitForEvents();
    HandleSignals();
    if (options_.asks_for_shape && options_.asks_for_shape()) {
      Tell([&](LaunchActions& actions) { course_.OnChange(actions); });
    }
    processes_.Advance(clock_.Now());
    // The tasks are reaped first. So a task's exit is known when the chief's report on it is read.
    ReapTasks();
    ReadChief();
    Tell([&](LaunchActions& actions) { course_.OnTick(clock_.Now(), actions); });
    if (!listener_.Behind()) logs_.ShowNew();
  }
  logs_.ShowRest();
  return Result();
}

// Actions that result from an action are appended, and carried out after the remaining actions.
void JobLaunch::Do(LaunchActions actions) {
  for (size_t i = 0; i < actions.size(); ++i) {
    const LaunchAction action = std::move(actions[i]);
    absl::visit([&](const auto& what) { Do(what, actions); }, action);
  }
}

void JobLaunch::Do(const StartTask& action, LaunchActions& next) {
  const absl::Status status = Spawn(action.task);
  if (status.ok()) return course_.OnStarted(next);
  course_.OnStartFailed(status, clock_.Now(), next);
}

void JobLaunch::Do(const NoteForUser& action, LaunchActions&) {
  proto::ProgressEvent event;
  event.set_note(action.text);
  listener_.OnEvent(event);
}

const Place& JobLaunch::PlaceOf(const LaunchTask& task) const {
  if (task.role == "chief") return options_.places.chief;
  return (task.role == "ps" ? options_.places.servers : options_.places.workers)[task.index];
}

absl::Status JobLaunch::Spawn(const LaunchTask& task) {
  const Place& place = PlaceOf(task);
  const bool chief = task.role == "chief";
  JobCommand command{.arguments = chief ? ChiefArguments() : ArgumentsOf(task),
                     .log_path = absl::StrCat(options_.run_dir, "/log/", task.role, "-", task.index, ".log"),
                     .read_output = chief};
  TETHYS_ASSIGN_OR_RETURN(command.input, SecretOf(task.role, task.index));
  TETHYS_RETURN_IF_ERROR(CreateDirectories(options_.run_dir + "/log"));
  if (options_.show_logs) {
    TETHYS_RETURN_IF_ERROR(logs_.Follow(command.log_path, absl::StrCat(task.name(), " on ", place.host)));
  }
  const int64_t log_begin = FileSize(command.log_path);
  absl::StatusOr<std::unique_ptr<JobProcess>> process = processes_.Start(place, command);
  if (!process.ok()) {
    return Annotate(process.status(), absl::StrCat("cannot start ", task.name(), " on ", place.host));
  }
  // The new chief reports again what this launcher has not read, so the pipe of the lost chief is closed.
  if (chief && !tasks_.empty()) tasks_[course_.chief()].process.reset();
  tasks_.push_back({task.name(), command.log_path, log_begin, &place, *std::move(process)});
  return absl::OkStatus();
}

std::vector<std::string> JobLaunch::ChiefArguments() const {
  const Place& place = options_.places.chief;
  std::vector<std::string> arguments = {
      "chief", absl::StrCat("--job=", options_.chief_run_dir, "/job.textproto"),
      "--run_dir=" + options_.chief_run_dir,
      absl::StrCat("--listen=", chief_address_.empty() ? HostPortText({place.address, options_.chief_port})
                                                       : chief_address_),
      "--host=" + place.host};
  if (options_.resume) arguments.push_back("--resume");
  arguments.push_back(absl::StrCat("--max_restarts=", options_.max_restarts));
  if (options_.chief_keeps_log) arguments.push_back("--keep_log");
  if (!tasks_.empty()) arguments.push_back(absl::StrCat("--take_over=", last_event_));
  if (options_.secret.has_value()) arguments.push_back("--scheduled");
  const std::string devices = WorkerDevicesText(options_.places.worker_devices);
  if (!devices.empty()) arguments.push_back("--worker_devices=" + devices);
  return arguments;
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
  return absl::ResourceExhaustedError(absl::StrCat(
      "the secrets for ", role, " ", index, " take ", line.size(), " bytes, but at most ", kMostInput,
      " can be handed over: leave only what this job needs in the file of secrets (--secrets)"));
}

std::vector<std::string> JobLaunch::ArgumentsOf(const LaunchTask& task) const {
  const Place& place = PlaceOf(task);
  std::vector<std::string> arguments = {task.role, "--chief=" + chief_address_,
                                        absl::StrCat("--index=", task.index),
                                        absl::StrCat("--bind=", place.address), "--host=" + place.host};
  if (task.incarnation > 1) arguments.push_back(absl::StrCat("--incarnation=", task.incarnation));
  // The process stops trying to connect before the chief stops waiting for it, so that the process can still
  // report why it does not join.
  const double patience = kConnectShare * options_.timeouts.start();
  if (patience < kConnectSeconds) {
    arguments.push_back(
        absl::StrCat("--connect_timeout=", std::max<int64_t>(1, static_cast<int64_t>(patience))));
  }
  for (const std::string& folder : options_.cuda_library_path) {
    if (task.role == "worker") arguments.push_back("--cuda_library_path=" + folder);
  }
  return arguments;
}

void JobLaunch::WaitForEvents() {
  // The chief's descriptor is -1, which poll ignores, once it is closed or if the chief runs elsewhere.
  std::vector<pollfd> fds = {{signals_.fd(), POLLIN, 0}};
  if (!tasks_.empty()) fds.push_back({Chief().lines().fd(), POLLIN, 0});
  processes_.AddTo(fds);
  const Nanoseconds left = std::max<Nanoseconds>(course_.deadline() - clock_.Now(), 0);
  const Nanoseconds longest = options_.show_logs || options_.asks_for_shape ? kPollInterval : kSecond;
  poll(fds.data(), fds.size(), static_cast<int>(std::min(left / kMillisecond + 1, longest / kMillisecond)));
}

void JobLaunch::HandleSignals() {
  while (const int number = signals_.Next()) {
    if (number == SIGCHLD) continue;
    Tell([&](LaunchActions& actions) { course_.OnInterrupt(number, clock_.Now(), actions); });
  }
}

void JobLaunch::ReapTasks() {
  const size_t chief = course_.chief();
  // Uses an index, because the loop may append a replacement to tasks_, which makes iterators invalid.
  for (size_t i = 0; i < tasks_.size(); ++i) {
    if (i != chief) ReapTask(i);
  }
  if (tasks_.empty() || tasks_[chief].ended || !tasks_[chief].process->Poll().has_value()) return;
  // If the chief has reported the job's result, its end is no loss. So its reports are read first.
  ReadChief();
  ReapTask(chief);
}

void JobLaunch::ReapTask(size_t number) {
  Task& task = tasks_[number];
  if (task.ended || !task.process->Poll().has_value()) return;
  task.ended = true;
  const ProcessExit exit = *task.process->Poll();
  // Closes the pipes of the process, since a job may lose and replace many. Reports of the chief are read
  // later.
  if (number != course_.chief()) task.process.reset();
  Tell([&](LaunchActions& actions) { course_.OnExit(number, exit, actions); });
}

void JobLaunch::ReadChief() {
  while (!tasks_.empty()) {
    const std::optional<std::string> line = Chief().lines().Next();
    if (!line.has_value()) return;
    proto::ProgressEvent event;
    google::protobuf::util::JsonParseOptions json;
    json.ignore_unknown_fields = true;
    if (!google::protobuf::util::JsonStringToMessage(*line, &event, json).ok()) event.set_note(*line);
    last_event_ = std::max(last_event_, event.number());
    if (event.has_listening() && chief_address_.empty()) chief_address_ = event.listening().address();
    Tell([&](LaunchActions& actions) { course_.OnReport(event, clock_.Now(), actions); });
    listener_.OnEvent(event);
  }
}

RunResult JobLaunch::Result() const {
  RunResult result;
  const JobEnd& end = course_.end();
  FirstFailure failure = FindFirstFailure(end, options_.places.chief.host);
  result.status = failure.status;
  result.culprit = failure.task;
  result.interrupt = end.interrupt;
  result.changes = end.changes && absl::IsCancelled(failure.status);
  result.last_step = end.last_step;
  result.survived = end.survived;
  result.restarts = end.restarts;
  result.loss = failure.loss;
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
