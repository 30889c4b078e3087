#include "deploy/run/job_run.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <memory>

#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "deploy/describe/chance_remark.h"
#include "deploy/describe/quality_text.h"
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
#include "deploy/process/signal_source.h"
#include "deploy/report/loss_text.h"
#include "deploy/report/others_cpu.h"
#include "deploy/run/dashboard.h"
#include "deploy/run/initial_values.h"
#include "deploy/run/job_places.h"
#include "runtime/checkpoint/checkpoint_store.h"
#include "runtime/checkpoint/model_description.h"
#include "runtime/chief/attempts.h"
#include "runtime/chief/starting_state.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/data/data_format.h"
#include "runtime/data/dataset.h"
#include "runtime/data/kept_samples.h"
#include "runtime/job/job.h"
#include "runtime/remote/remote_files.h"
#include "runtime/shape/job_shape.h"
#include "runtime/telemetry/summary.h"
#include "workers/plan_job.h"

namespace tethys {
namespace {

constexpr int64_t kMaxStepsCsvBytes = int64_t{256} << 20;

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

// Adds the results in the run's files to the TensorBoard log. Errors are ignored: the report lists missing
// files.
void AddResults(const std::string& run_dir, TensorboardLog& log) {
  const absl::StatusOr<proto::RunSummary> summary = ReadSummary(run_dir);
  const absl::StatusOr<std::string> steps = ReadFile(run_dir + "/steps.csv", kMaxStepsCsvBytes);
  log.AddResults(summary.ok() ? *summary : proto::RunSummary(), steps.ok() ? *steps : "");
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
  std::vector<LostTask> survived = {};  // Lost workers without which the job continued.
};

// Adds what became of the workers' processes to the losses. The chief knows only that a session ended.
void AddExits(const std::vector<LostTask>& survived, proto::RunSummary& summary) {
  for (proto::WorkerLoss& loss : *summary.mutable_worker_loss()) {
    for (const LostTask& task : survived) {
      const bool same = task.name == absl::StrCat("worker ", loss.worker()) &&
                        task.incarnation == static_cast<int>(loss.incarnation());
      if (!same || task.given_up || !task.exit.abrupt()) continue;
      loss.set_reason(absl::StrCat(loss.reason(), " (its process ", ExitText(task.exit), ")"));
    }
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

LaunchOptions LaunchOf(const proto::JobPlan& plan, const std::string& run_dir, const JobRunOptions& options) {
  LaunchOptions launch;
  launch.run_dir = run_dir;
  launch.places =
      options.places.value_or(PlacesHere(OwnProgram(), plan.job().workers(), ShapeOf(plan.job()).servers));
  launch.chief_run_dir = ChiefRunDir(launch.places.chief, run_dir);
  launch.secret = options.secret;
  launch.chief_port = options.chief_port;
  launch.resume = options.resume;
  launch.cuda_library_path = options.cuda_library_path;
  // The secrets with which planning opened the data.
  launch.data_secrets = SecretsInUse().SerializeAsString();
  launch.timeouts = plan.job().timeouts();
  launch.survives_worker_loss = SurvivesWorkerLoss(plan);
  launch.restarts_before_training = TraitsOf(plan.job()).leases();
  launch.max_restarts = plan.job().max_restarts();
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

}  // namespace

absl::StatusOr<proto::JobPlan> PrepareJob(const proto::Job& job, bool needs_scaling) {
  TETHYS_ASSIGN_OR_RETURN(proto::JobPlan plan, PlanJob(job));
  const SampleSpec spec = SampleSpecOf(plan);
  const int64_t samples = plan.train_samples() + plan.validation_samples();
  TETHYS_ASSIGN_OR_RETURN(absl::optional<InputScaling> scaling,
                          FindScaling(job, spec, plan.train_samples(), plan.validation_samples()));
  needs_scaling = !scaling.has_value() && (needs_scaling || job.has_initial());
  const bool unpacked = UnpacksSamples(job.data(), spec, samples);
  if (unpacked && !needs_scaling) {
    TETHYS_RETURN_IF_ERROR(CheckLabelFiles(job));
    if (scaling.has_value()) *plan.mutable_scaling() = MessageOf(*scaling);
    return plan;
  }
  TETHYS_ASSIGN_OR_RETURN(const Datasets datasets,
                          needs_scaling ? LoadDatasets(job) : LoadDatasetsUncached(job));
  // True if the samples are in memory already. Decoding them from files here would only delay the start.
  const bool held = FormatOf(job.data()).bytes_held(job.data(), spec) >= spec.bytes();
  if (!scaling.has_value() && (held || needs_scaling)) {
    TETHYS_ASSIGN_OR_RETURN(scaling, ResolveScaling(job.data(), datasets));
  }
  if (scaling.has_value()) *plan.mutable_scaling() = MessageOf(*scaling);
  return plan;
}

namespace {

// The error for a run that ended before its first checkpoint: how it ended, and the command that starts
// again.
absl::Status NoCheckpointYet(const std::string& run_dir) {
  const absl::StatusOr<proto::RunSummary> summary = ReadSummary(run_dir);
  const RunEnding ending =
      EndingOf(run_dir, summary.ok() ? absl::optional<proto::RunSummary>(*summary) : absl::nullopt);
  const std::string why = ending.text.empty() ? "" : absl::StrCat(" (", ending.text, ")");
  return absl::NotFoundError(absl::StrCat(
      run_dir, " has no checkpoint yet to go on from", why, "; ",
      ending.go_on.empty() ? GoOnText(run_dir, /*scheduled=*/false, absl::OkStatus()) : ending.go_on));
}

}  // namespace

absl::StatusOr<proto::TrainingState> CheckResumable(const proto::JobPlan& plan, const std::string& run_dir) {
  const std::string root = run_dir + "/checkpoints";
  TETHYS_ASSIGN_OR_RETURN(const VariableSet variables, VariablesOf(plan));
  const std::vector<std::string> slots(plan.slot().begin(), plan.slot().end());
  TETHYS_ASSIGN_OR_RETURN(const StartingState start,
                          FindStartingState(plan, variables, slots, root, /*resume=*/true));
  if (start.reader == nullptr || start.initial) {
    const auto saved = ListCheckpoints(root);
    if (saved.ok() && saved->empty()) return NoCheckpointYet(run_dir);
    return absl::NotFoundError(absl::StrCat(
        root, " holds no undamaged checkpoint to go on from: train without --resume in another --run_dir"));
  }
  const absl::StatusOr<proto::RunSummary> summary = ReadSummary(run_dir);
  TETHYS_RETURN_IF_ERROR(
      CheckLeftToTrain(plan, start.state, summary.ok() && summary->status() == "succeeded"));
  TETHYS_RETURN_IF_ERROR(CheckRestOfEpoch(plan, start.state.position()));
  return start.state;
}

absl::Status CheckPortFree(int port) {
  FileDescriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int on = 1;
  // Connections of ended jobs may still be in TIME_WAIT on this port.
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0)
    return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(ErrnoStatus(errno, absl::StrCat("port ", port)).message(),
                   ": choose another port by --chief_port, or leave --chief_port out"));
}

std::vector<FlagSpec> WithDisplayFlags(std::vector<FlagSpec> flags) {
  flags.push_back({.name = "plain",
                   .help = "Prints only whole lines without a progress bar, which is the default if standard "
                           "output is not a terminal."});
  flags.push_back({.name = "log_to_terminal",
                   .help = "Shows the logs of all processes as they grow: \"[worker 3 on slave2] TEXT\"."});
  return flags;
}

void ReadDisplayFlags(const Flags& flags, JobRunOptions& options) {
  options.live = !flags.Has("plain") && IsTerminal(STDOUT_FILENO);
  options.show_logs = flags.Has("log_to_terminal");
}

namespace {

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

}  // namespace

namespace {

// Starts the live view if it is requested, and prints its address. If the live view does not start, prints a
// warning; the run goes on without it.
absl::optional<Dashboard> StartDashboard(const std::string& run_dir, const JobRunOptions& options) {
  if (!options.dashboard) return absl::nullopt;
  absl::StatusOr<Dashboard> dashboard = Dashboard::Start(run_dir, options.dashboard_metrics);
  if (!dashboard.ok()) {
    std::fprintf(stderr, "warning: no live view: %s\n", StatusText(dashboard.status()).c_str());
    return absl::nullopt;
  }
  std::printf("%s\n", dashboard->lines().c_str());
  std::fflush(stdout);
  return *std::move(dashboard);
}

}  // namespace

RunResult RunJob(const proto::JobPlan& plan, const RunDirectory& directory, const JobRunOptions& options) {
  RunResult result;
  const double began = WallSeconds();
  // Interrupts stay pending from the first change to the directory until Launch starts, and from the end of
  // Launch until the results have been fetched.
  absl::optional<InterruptsHeld> held(absl::in_place);
  const NamedLauncher named(directory);
  const EarlierRun earlier(directory.path(), options);
  result.status = directory.WriteJob(plan.job());
  if (result.status.ok() && !options.start.empty()) {
    result.status =
        WriteFileAtomically(absl::StrCat(directory.path(), "/", kStartFile), options.start + "\n");
  }
  if (result.status.ok()) result.status = KeepHostFlags(directory.path(), options.host_flags);
  if (result.status.ok() && !options.resume) result.status = RemoveSummary(directory.path());
  if (result.status.ok()) result.status = SaveInitialValues(plan, directory.path());
  if (!result.status.ok()) return result;
  // A failure gives only a warning, because the run does not need the expectation.
  if (const absl::Status kept = WriteExpectation(directory.path(), options.expectation); !kept.ok()) {
    std::fprintf(stderr, "warning: live views do not show the prediction: %s\n", StatusText(kept).c_str());
  }
  const LaunchOptions launch = LaunchOf(plan, directory.path(), options);
  const Place& chief = launch.places.chief;
  if (!chief.ssh.empty()) held.reset();  // Sending may take long, so from here on an interrupt ends it.
  result.status = SendRunDir(chief, directory.path());
  if (!held.has_value()) held.emplace();
  if (!result.status.ok()) {
    result.status.Update(earlier.RestoreJob());
    return result;
  }
  const absl::optional<Dashboard> dashboard = StartDashboard(directory.path(), options);
  const std::unique_ptr<ProgressListener> display =
      options.quiet ? std::make_unique<SilentListener>()
                    : CreateProgressDisplay(STDOUT_FILENO, {.live = options.live,
                                                            .colour = WantsColour(STDOUT_FILENO),
                                                            .expectation = options.expectation});
  ProgressLog log(directory.path(), *display);
  EpochWatcher watcher(log);
  TensorboardLog tensorboard(TensorboardOf(plan, directory.path(), options.resume), watcher);
  const absl::StatusOr<CpuMark> begin = ReadCpuMark();
  PathsHere paths(launch.chief_run_dir, launch.run_dir, tensorboard);
  result = Launch(launch, paths);
  const absl::StatusOr<CpuMark> end = ReadCpuMark();
  // Removes this machine's copy of the earlier summary, because the chief has removed its own copy. If the
  // chief has since written a new summary, FetchResults fetches it.
  if (watcher.started() && !chief.ssh.empty()) RemoveSummary(directory.path()).IgnoreError();
  FetchResults(chief, directory.path(), result);
  held->ReleaseAndDiscard();  // The run has ended; an interrupt would only prevent the report of its result.
  const absl::Status restored = watcher.started() ? absl::OkStatus() : earlier.RestoreJob();
  if (!restored.ok()) absl::StrAppend(&result.log_tail, "  ", StatusText(restored), "\n");
  const std::string go_on =
      result.status.ok() ? "" : GoOnText(directory.path(), options.secret.has_value(), result.status);
  const absl::Status completed =
      watcher.started() || !earlier.has_summary()
          ? CompleteSummary(plan, directory.path(), result, watcher.last(), earlier.attempts(), go_on)
          : absl::OkStatus();
  if (!completed.ok()) absl::StrAppend(&result.log_tail, "  no summary: ", StatusText(completed), "\n");
  if (watcher.started()) {
    LauncherFigures figures = {.began = began, .seconds = WallSeconds() - began};
    figures.all_here = AllHere(launch.places);
    figures.survived = result.survived;
    if (begin.ok() && end.ok()) figures.others_cpu = OthersShare(*begin, *end);
    if (options.expectation.has_value()) figures.prediction = options.expectation->prediction();
    AddToSummary(figures, launch.chief_run_dir, directory.path());
  }
  AddResults(directory.path(), tensorboard);
  if (!result.status.ok()) log.Record(EndEvent(result, go_on));
  return result;
}

std::string OutcomeText(const proto::Job& job, const std::string& run_dir) {
  const absl::StatusOr<proto::RunSummary> summary = ReadSummary(run_dir);
  if (!summary.ok()) return StatusText(summary.status());
  std::string text = "done";
  if (summary->has_test()) {
    text = absl::StrCat("test ", QualityText(summary->test()));
  } else if (summary->has_validation()) {
    text = absl::StrCat("validation ", QualityText(summary->validation()));
  }
  absl::StrAppendFormat(&text, "; %.1f s of training, %.1f s in all", summary->timing().training_seconds(),
                        summary->timing().total_seconds());
  if (summary->attempt_size() > 1) absl::StrAppend(&text, " over ", summary->attempt_size(), " attempts");
  if (const std::string losses = LossText(*summary); !losses.empty()) absl::StrAppend(&text, "; ", losses);
  if (summary->has_best()) {
    const std::string accuracy =
        summary->validation().has_accuracy()
            ? absl::StrFormat("accuracy %.4f, ", summary->best().validation_accuracy())
            : "";
    absl::StrAppendFormat(&text, "; best after epoch %d, in checkpoints/best: validation %sloss %.4f",
                          summary->best().epoch() + 1, accuracy, summary->best().validation_loss());
  }
  if (summary->has_cost()) {
    absl::StrAppend(&text, "; cost ", CostText(summary->cost()));
  }
  const std::string remark = ChanceRemark(*summary, job.data().classes());
  if (!remark.empty()) absl::StrAppend(&text, "\n", remark);
  return text;
}

}  // namespace tethys
