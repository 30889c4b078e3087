#include "deploy/run/job_run.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_format.h"
#include "deploy/describe/chance_remark.h"
#include "deploy/describe/quality_text.h"
#include "deploy/launcher/progress_display.h"
#include "deploy/launcher/run_ending.h"
#include "deploy/predict/job_forecast.h"
#include "deploy/report/loss_text.h"
#include "deploy/run/run_attempt.h"
#include "runtime/checkpoint/checkpoint_store.h"
#include "runtime/checkpoint/model_description.h"
#include "runtime/chief/starting_state.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/data/data_format.h"
#include "runtime/data/dataset.h"
#include "runtime/data/kept_samples.h"
#include "runtime/job/job.h"
#include "runtime/telemetry/summary.h"
#include "workers/plan_job.h"

namespace tethys {

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
  // True if the samples are in memory already. Samples in files are not decoded here only to compute the
  // standardisation, because this would delay the start.
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

RunResult RunJob(const proto::JobPlan& plan, const RunDirectory& directory, const JobRunOptions& options) {
  AttemptRunner runner(directory, options);
  proto::JobPlan current = plan;
  JobRunOptions next = options;
  int restarts = plan.job().max_restarts();
  while (true) {
    AttemptEnd end = runner.Run(current, next, restarts);
    if (!end.next.has_value()) {
      runner.DiscardInterrupts();
      return std::move(end.result);
    }
    restarts = end.next->restarts;
    next.resume = true;
    next.resumed = std::move(end.next->state);
    if (!end.next->placed.has_value()) continue;
    current = std::move(end.next->placed->plan);
    next.places = std::move(end.next->placed->places);
    next.expectation = std::move(end.next->placed->expectation);
  }
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
  if (const std::string attempts = AttemptsText(*summary); !attempts.empty()) {
    absl::StrAppend(&text, " ", attempts);
  }
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
