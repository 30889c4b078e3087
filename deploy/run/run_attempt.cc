#include "deploy/run/run_attempt.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "deploy/hosts/remote_run_dir.h"
#include "deploy/launcher/load_meter.h"
#include "deploy/launcher/paths_here.h"
#include "deploy/launcher/progress_display.h"
#include "deploy/launcher/progress_log.h"
#include "deploy/launcher/run_ending.h"
#include "deploy/launcher/tensorboard_log.h"
#include "deploy/launcher/unfinished_summary.h"
#include "deploy/live/expectation_file.h"
#include "deploy/predict/job_forecast.h"
#include "deploy/process/own_program.h"
#include "deploy/report/others_cpu.h"
#include "deploy/run/initial_values.h"
#include "deploy/run/job_places.h"
#include "deploy/shape_words.h"
#include "deploy/text.h"
#include "runtime/checkpoint/checkpoint_store.h"
#include "runtime/chief/attempts.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/job/job.h"
#include "runtime/remote/remote_files.h"
#include "runtime/shape/job_shape.h"
#include "runtime/telemetry/summary.h"

namespace tethys {
namespace {

constexpr size_t kPartOfStepsBytes = 64 << 10;

double WallSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

TensorboardOptions TensorboardOf(const proto::JobPlan& plan, const std::string& run_dir, bool resume) {
  TensorboardOptions options = {.run_dir = run_dir, .resumed = resume, .wall_seconds = WallSeconds};
  options.learning_rate = [&plan, schedule = ScheduleOf(plan)](int64_t epoch, int64_t position) {
    return schedule.At(SamplesUsed(plan, epoch, position));
  };
  return options;
}

// Passes steps.csv to the log in parts, because the file of a long run is large.
void AddSteps(const std::string& run_dir, TensorboardLog& log) {
  std::FILE* const file = std::fopen((run_dir + "/steps.csv").c_str(), "re");
  if (file == nullptr) return;
  char* line = nullptr;
  size_t room = 0, header = 0;
  std::string part;
  while (getline(&line, &room, file) > 0) {
    part += line;
    if (header == 0) header = part.size();
    if (part.size() < kPartOfStepsBytes) continue;
    log.AddSteps(part);
    part.resize(header);
  }
  log.AddSteps(part);
  std::free(line);
  std::fclose(file);
}

// Adds the results in the run's files to the TensorBoard log. Errors are ignored: the report lists missing
// files.
void AddResults(const std::string& run_dir, TensorboardLog& log) {
  if (log.needs_steps()) AddSteps(run_dir, log);
  log.AddResults(ReadSummary(run_dir).value_or(proto::RunSummary()));
}

// Ignores the events and the log lines of a run.
class SilentListener final : public ProgressListener {
 public:
  void OnEvent(const proto::ProgressEvent&) override {}
  void OnLogLine(const std::string&) override {}
};

bool AllHere(const Places& places) {
  const auto here = [](const Place& place) { return place.ssh.empty(); };
  return here(places.chief) && std::all_of(places.servers.begin(), places.servers.end(), here) &&
         std::all_of(places.workers.begin(), places.workers.end(), here);
}

// The launcher's additions to the summary of a run.
struct LauncherFigures {
  double began = 0;    // When the run began, in seconds since 1970.
  double seconds = 0;  // From `began` until the results had been fetched.
  // The share of the CPU that other programs used on this machine. Used only if `all_here`; otherwise the
  // share is computed from the samples of all machines.
  absl::optional<double> others_cpu = {};
  bool all_here = false;  // True if all processes ran on this machine.
  absl::optional<proto::Prediction> prediction = {};
  std::vector<LostTask> survived = {};  // Lost workers and servers without which the job continued.
};

// Adds to a loss how the process of the lost task ended. The chief knows only that the task's session ended.
template <typename Loss>
void AddExit(const std::vector<LostTask>& survived, const std::string& name, Loss& loss) {
  for (const LostTask& task : survived) {
    const bool same = task.name == name && task.incarnation == static_cast<int>(loss.incarnation());
    if (!same || task.given_up || !task.exit.abrupt()) continue;
    loss.set_reason(absl::StrCat(loss.reason(), " (its process ", ExitText(task.exit), ")"));
  }
}

void AddExits(const std::vector<LostTask>& survived, proto::RunSummary& summary) {
  for (proto::WorkerLoss& loss : *summary.mutable_worker_loss()) {
    AddExit(survived, absl::StrCat("worker ", loss.worker()), loss);
  }
  for (proto::ServerLoss& loss : *summary.mutable_server_loss()) {
    AddExit(survived, absl::StrCat("ps ", loss.server()), loss);
  }
}

// Adds `figures` to the summary of the run in `run_dir`, and replaces `chief_run_dir` by `run_dir` in the
// summary's path of the last checkpoint. Does nothing if the run has no summary.
void AddToSummary(const LauncherFigures& figures, const std::string& chief_run_dir,
                  const std::string& run_dir) {
  absl::StatusOr<proto::RunSummary> summary = ReadSummary(run_dir);
  if (!summary.ok()) return;
  if (absl::string_view path = summary->last_checkpoint(); absl::ConsumePrefix(&path, chief_run_dir)) {
    summary->set_last_checkpoint(absl::StrCat(run_dir, path));
  }
  summary->set_began(figures.began);
  summary->set_seconds(figures.seconds);
  const absl::optional<double> others = figures.all_here ? figures.others_cpu : OthersCpuOf(*summary);
  if (others.has_value()) summary->set_others_cpu(*others);
  if (figures.prediction.has_value()) *summary->mutable_prediction() = *figures.prediction;
  AddExits(figures.survived, *summary);
  WriteSummary(run_dir, *summary).IgnoreError();
}

Places PlacesOf(const proto::JobPlan& plan, const JobRunOptions& options) {
  return options.places.value_or(PlacesHere(OwnProgram(), plan.job().workers(), ShapeOf(plan.job()).servers));
}

LaunchOptions LaunchOf(const proto::JobPlan& plan, const std::string& run_dir, const JobRunOptions& options,
                       int restarts) {
  LaunchOptions launch;
  launch.run_dir = run_dir;
  launch.places = PlacesOf(plan, options);
  launch.chief_run_dir = ChiefRunDir(launch.places.chief, run_dir);
  launch.secret = options.secret;
  launch.chief_port = options.chief_port;
  launch.resume = options.resume;
  launch.cuda_library_path = options.cuda_library_path;
  // The secrets that were used to open the data when the plan was made.
  launch.data_secrets = SecretsInUse().SerializeAsString();
  launch.timeouts = plan.job().timeouts();
  launch.survives_worker_loss = SurvivesWorkerLoss(plan);
  launch.survives_server_loss = CopiesShards(plan);
  launch.restarts_before_training = TraitsOf(plan.job()).leases();
  launch.max_restarts = restarts;
  // A scheduler starts the job's chief, and starts it only once.
  launch.chief_keeps_log = restarts > 0 && !options.secret.has_value();
  launch.show_logs = options.show_logs;
  return launch;
}

// The last event for live views. The launcher knows more about the run's end than the chief does.
proto::ProgressEvent EndEvent(const RunResult& result, const std::string& go_on) {
  proto::ProgressEvent event;
  proto::Finished& finished = *event.mutable_finished();
  finished.set_error(EndingText(result));
  finished.set_status_code(static_cast<int>(result.status.code()));
  finished.set_culprit(result.culprit);
  finished.set_interrupted(absl::IsCancelled(result.status));
  finished.set_go_on(go_on);
  return event;
}

// The job file and earlier attempts of a run that is resumed. If the new attempt ends before training starts,
// the job file is restored.
class EarlierRun {
 public:
  EarlierRun(const std::string& run_dir, const JobRunOptions& options)
      : run_dir_(run_dir), job_file_(run_dir + "/job.textproto") {
    if (!options.resume) return;
    job_ = ReadFile(job_file_);
    host_flags_ = ReadHostFlags(run_dir);
    const absl::StatusOr<proto::RunSummary> summary = ReadSummary(run_dir);
    has_summary_ = summary.ok();
    attempts_ = EarlierAttempts(options.resumed,
                                summary.ok() ? absl::optional<proto::RunSummary>(*summary) : absl::nullopt);
  }

  bool has_summary() const { return has_summary_; }
  const Attempts& attempts() const { return attempts_; }
  absl::Status RestoreJob() const {
    if (!job_.ok()) return absl::OkStatus();
    TETHYS_RETURN_IF_ERROR(KeepHostFlags(run_dir_, host_flags_));
    return WriteFileAtomically(job_file_, *job_);
  }

 private:
  const std::string run_dir_;
  const std::string job_file_;
  std::string host_flags_;
  absl::StatusOr<std::string> job_ = absl::NotFoundError("a new run");
  bool has_summary_ = false;
  Attempts attempts_;
};

// Fetches the results from the chief's machine. If this fails, a job that succeeded counts as failed.
void FetchResults(const Place& chief, const std::string& run_dir, RunResult& result) {
  const absl::Status fetched = FetchRunDir(chief, run_dir, PrintLine);
  if (fetched.ok()) return;
  if (result.status.ok()) {
    result.status = absl::DataLossError(absl::StrCat("the job is done, but ", fetched.message()));
  } else {
    absl::StrAppend(&result.log_tail, "  ", fetched.message(), "\n");
  }
}

// The state from which the next attempt of a run would continue: the newest checkpoint or, if the run has
// saved none, the beginning of the job. An error: the checkpoint cannot be used, or the results are still on
// the chief's machine.
absl::StatusOr<proto::TrainingState> NextState(const proto::JobPlan& plan, const std::string& run_dir) {
  if (const std::string where = UnfetchedAt(run_dir); !where.empty()) {
    return absl::UnavailableError(absl::StrCat("the results of the run are still in ", where));
  }
  const auto checkpoints = ListCheckpoints(run_dir + "/checkpoints");
  if (checkpoints.ok() && checkpoints->empty()) return proto::TrainingState();
  return CheckResumable(plan, run_dir);
}

// "the checkpoint of step 300".
std::string BeginText(const proto::TrainingState& state) {
  if (state.step() == 0) return "the beginning, because no checkpoint was saved yet";
  return absl::StrCat("the checkpoint of step ", CountText(state.step()));
}

// "4 workers and 2 servers go on from the checkpoint of step 300".
std::string GoOnFrom(const proto::Job& job, const proto::TrainingState& state) {
  const std::string processes = ProcessesText(ShapeOf(job));
  return absl::StrCat(processes, processes == "1 worker" ? " goes" : " go", " on from ", BeginText(state));
}

void AddNote(const std::string& text, ProgressListener& listener) {
  proto::ProgressEvent event;
  event.set_note(text);
  listener.OnEvent(event);
}

// Starts the live view, and prints its address. If the live view does not start, prints a warning; the run
// goes on without it.
void StartDashboard(const std::string& run_dir, const JobRunOptions& options,
                    absl::optional<Dashboard>& dashboard) {
  absl::StatusOr<Dashboard> started = Dashboard::Start(run_dir, options.dashboard_metrics);
  if (!started.ok()) {
    std::fprintf(stderr, "warning: no live view: %s\n", StatusText(started.status()).c_str());
    return;
  }
  dashboard.emplace(*std::move(started));
  std::printf("%s\n", dashboard->lines().c_str());
  std::fflush(stdout);
}

std::unique_ptr<ProgressListener> DisplayOf(const JobRunOptions& options) {
  if (options.quiet) return std::make_unique<SilentListener>();
  return CreateProgressDisplay(
      STDOUT_FILENO,
      {.live = options.live, .colour = WantsColour(STDOUT_FILENO), .expectation = options.expectation});
}

}  // namespace

AttemptRunner::AttemptRunner(const RunDirectory& directory, const JobRunOptions& options)
    : directory_(directory), named_(directory) {
  RemoveScaleFiles(directory.path());
  if (options.replan) inbox_.emplace(directory.path(), options.host_file);
}

absl::Status AttemptRunner::Prepare(const proto::JobPlan& plan, const JobRunOptions& options,
                                    const Place& chief) {
  const std::string& run_dir = directory_.path();
  TETHYS_RETURN_IF_ERROR(directory_.WriteJob(plan.job()));
  if (!options.start.empty()) {
    TETHYS_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(run_dir, "/", kStartFile), options.start + "\n"));
  }
  TETHYS_RETURN_IF_ERROR(KeepHostFlags(run_dir, options.host_flags));
  if (!options.resume) TETHYS_RETURN_IF_ERROR(RemoveSummary(run_dir));
  TETHYS_RETURN_IF_ERROR(SaveInitialValues(plan, run_dir));
  // A failure gives only a warning, because only live views need the expectation (the run's prediction).
  if (const absl::Status kept = WriteExpectation(run_dir, options.expectation); !kept.ok()) {
    std::fprintf(stderr, "warning: live views do not show the prediction: %s\n", StatusText(kept).c_str());
  }
  // Sending may take long, so an interrupt ends it. In a later attempt, an interrupt may be pending already;
  // it is handled by Launch, which reports how the run ended.
  if (!chief.ssh.empty() && !follows_) held_.reset();
  const absl::Status sent = SendRunDir(chief, run_dir);
  if (!held_.has_value()) held_.emplace();
  return sent;
}

absl::StatusOr<NextAttempt> AttemptRunner::AfterLoss(const proto::JobPlan& plan, int restarts) const {
  const int most = plan.job().max_restarts();
  NextAttempt next;
  TETHYS_ASSIGN_OR_RETURN(next.state, NextState(plan, directory_.path()));
  next.restarts = restarts - 1;
  next.how = absl::StrCat("all processes start again from ", BeginText(next.state), " (restart ",
                          most - next.restarts, " of ", most, ")");
  return next;
}

absl::StatusOr<NextAttempt> AttemptRunner::AfterChange(const proto::JobPlan& plan,
                                                       const JobRunOptions& options, int restarts) {
  const absl::optional<std::vector<std::string>> changes = inbox_->Take();
  PlacedJob now = {plan, PlacesOf(plan, options), options.expectation};
  absl::StatusOr<PlacedJob> placed = absl::NotFoundError("the request is gone");
  if (changes.has_value()) placed = options.replan(*changes);
  if (!placed.ok()) return Unchanged(placed.status(), std::move(now), restarts);
  absl::StatusOr<proto::TrainingState> state = NextState(placed->plan, directory_.path());
  if (!state.ok()) return Unchanged(state.status(), std::move(now), restarts);
  before_ = std::move(now);
  NextAttempt next = {*std::move(state), *std::move(placed), restarts};
  next.how = GoOnFrom(next.placed->plan.job(), next.state);
  return next;
}

absl::StatusOr<NextAttempt> AttemptRunner::Unchanged(const absl::Status& why, PlacedJob job, int restarts) {
  before_.reset();
  NextAttempt next;
  next.restarts = restarts;
  TETHYS_ASSIGN_OR_RETURN(next.state, NextState(job.plan, directory_.path()));
  next.how = absl::StrCat(kNotChanged, why.message(), "; ", GoOnFrom(job.plan.job(), next.state));
  next.placed = std::move(job);
  return next;
}

absl::optional<absl::StatusOr<NextAttempt>> AttemptRunner::Next(const proto::JobPlan& plan,
                                                                const JobRunOptions& options, int restarts,
                                                                bool trained, const RunResult& result) {
  if (trained) before_.reset();
  if (result.changes) return AfterChange(plan, options, restarts);
  if (result.status.ok() || result.interrupt != 0) return absl::nullopt;
  if (before_.has_value()) return Unchanged(result.status, *std::move(before_), restarts);
  // A scheduler starts the other processes of its job, and starts none of them again.
  const bool restarts_all = result.loss && (trained || follows_) && restarts > 0;
  if (!restarts_all || options.secret.has_value()) return absl::nullopt;
  return AfterLoss(plan, restarts);
}

AttemptEnd AttemptRunner::Run(const proto::JobPlan& plan, const JobRunOptions& options, int restarts) {
  AttemptEnd end;
  RunResult& result = end.result;
  const std::string& run_dir = directory_.path();
  const double began = WallSeconds();
  if (!held_.has_value()) held_.emplace();
  const EarlierRun earlier(run_dir, options);
  LaunchOptions launch = LaunchOf(plan, run_dir, options, restarts);
  if (inbox_.has_value()) launch.asks_for_shape = [this] { return inbox_->HasRequest(); };
  const Place& chief = launch.places.chief;
  result.status = Prepare(plan, options, chief);
  if (!result.status.ok() && !follows_) {
    result.status.Update(earlier.RestoreJob());
    return end;
  }
  if (options.dashboard && !dashboard_.has_value()) StartDashboard(run_dir, options, dashboard_);
  const std::unique_ptr<ProgressListener> display = DisplayOf(options);
  ProgressLog log(run_dir, *display);
  EpochWatcher watcher(log);
  TensorboardLog tensorboard(TensorboardOf(plan, run_dir, options.resume), watcher);
  const absl::StatusOr<CpuMark> cpu_begin = ReadCpuMark();
  PathsHere paths(launch.chief_run_dir, launch.run_dir, tensorboard);
  if (result.status.ok()) result = Launch(launch, paths);
  const absl::StatusOr<CpuMark> cpu_end = ReadCpuMark();
  // Removes this machine's copy of the earlier summary, because the chief has removed its own copy. If the
  // chief has since written a new summary, FetchResults fetches it.
  if (watcher.started() && !chief.ssh.empty()) RemoveSummary(run_dir).IgnoreError();
  FetchResults(chief, run_dir, result);
  absl::optional<absl::StatusOr<NextAttempt>> next =
      Next(plan, options, restarts - result.restarts, watcher.started(), result);
  const bool follows = next.has_value() && next->ok();
  if (follows && result.changes) {
    result.change = before_.has_value() ? ProcessesText(ShapeOf((*next)->placed->plan.job()))
                                        : "other numbers of processes, which was not possible";
  }
  const absl::Status restored = watcher.started() || follows ? absl::OkStatus() : earlier.RestoreJob();
  if (!restored.ok()) absl::StrAppend(&result.log_tail, "  ", StatusText(restored), "\n");
  std::string go_on = result.status.ok() ? "" : GoOnText(run_dir, options.secret.has_value(), result.status);
  const bool of_earlier = earlier.has_summary() && !watcher.started();
  const absl::Status completed =
      !of_earlier || follows_
          ? CompleteSummary(plan, run_dir, result, watcher.last(), earlier.attempts(), of_earlier, go_on)
          : absl::OkStatus();
  if (!completed.ok()) absl::StrAppend(&result.log_tail, "  no summary: ", StatusText(completed), "\n");
  if (watcher.started()) {
    LauncherFigures figures = {.began = began, .seconds = WallSeconds() - began};
    figures.all_here = AllHere(launch.places);
    figures.survived = result.survived;
    if (cpu_begin.ok() && cpu_end.ok()) figures.others_cpu = OthersShare(*cpu_begin, *cpu_end);
    if (options.expectation.has_value()) figures.prediction = options.expectation->prediction();
    AddToSummary(figures, launch.chief_run_dir, run_dir);
  }
  AddResults(run_dir, tensorboard);
  if (follows) {
    if (!result.changes) AddNote(EndingText(result), log);
    go_on = (*next)->how;
    AddNote(go_on, log);
    end.next = **std::move(next);
    follows_ = true;
  } else if (next.has_value()) {
    absl::StrAppend(&result.log_tail, "  the job was not started again: ", next->status().message(), "\n");
  }
  if (!result.status.ok()) log.Record(EndEvent(result, go_on));
  return end;
}

void AttemptRunner::DiscardInterrupts() {
  if (held_.has_value()) held_->ReleaseAndDiscard();
}

}  // namespace tethys
