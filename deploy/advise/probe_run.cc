#include "deploy/advise/probe_run.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/advise/advice_text.h"
#include "deploy/predict/loss_curve.h"
#include "deploy/process/scratch_directory.h"
#include "deploy/process/signal_source.h"
#include "deploy/report/time_to_accuracy.h"
#include "deploy/run/job_places.h"
#include "deploy/run/job_run.h"
#include "deploy/text.h"
#include "runtime/base/file.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/cluster/sample_order.h"
#include "runtime/job/job.h"
#include "runtime/job/job_validation.h"
#include "runtime/shape/job_shape.h"
#include "runtime/telemetry/summary.h"

namespace tethys {
namespace {

constexpr int kWidth = 100;
constexpr int kShownEpochs = 3;  // The most epochs that have a column in the table.
constexpr int kLeastSlots = 3;
constexpr char kUnknown[] = "unknown";
constexpr int64_t kMaxEpochsCsvBytes = int64_t{16} << 20;

double EpochsOf(const proto::JobPlan& plan) {
  return static_cast<double>(TotalSamples(plan)) /
         static_cast<double>(std::max<int64_t>(1, SamplesPerEpoch(plan)));
}

// A decay of the learning rate without a length spans the whole job. The learning rate of a probe must decay
// as in the first epochs of the whole job, so SetLength writes the length into the job.
template <class Decay>
void SetLength(int64_t samples, Decay& decay) {
  if (!decay.has_epochs() && decay.samples() == 0) decay.set_samples(samples);
}

// The job of a probe: it trains the first `epochs` epochs, saves nothing and does not stop early.
absl::StatusOr<proto::Job> ProbeJob(const proto::JobPlan& plan, int epochs) {
  proto::Job job = plan.job();
  proto::Schedule& schedule = *job.mutable_optimizer()->mutable_schedule();
  const int64_t samples = TotalSamples(plan);
  if (schedule.has_linear_decay()) SetLength(samples, *schedule.mutable_linear_decay());
  if (schedule.has_cosine_decay()) SetLength(samples, *schedule.mutable_cosine_decay());
  if (schedule.has_polynomial_decay()) SetLength(samples, *schedule.mutable_polynomial_decay());
  job.set_epochs(epochs);
  job.clear_max_steps();
  job.set_evaluate_each_epoch(true);
  job.clear_checkpoint();
  job.clear_early_stopping();
  EndAtFirstLoss(job);
  TETHYS_RETURN_IF_ERROR(ResolveJob([](absl::string_view) { return "a probe"; }, job));
  return job;
}

struct Probe {
  std::vector<double> losses;  // Validation losses, one per epoch.
  double epoch_seconds = 0;    // The mean training time of an epoch.
  std::string noise;           // NoiseScaleText of the run; may be empty.
};

absl::StatusOr<Probe> ReadProbe(const std::string& run_dir, int epochs, const std::string& what) {
  TETHYS_ASSIGN_OR_RETURN(const std::string csv, ReadFile(run_dir + "/epochs.csv", kMaxEpochsCsvBytes));
  Probe probe;
  for (const proto::EpochPoint& epoch : ParseEpochs(csv)) {
    if (!epoch.has_validation_loss() || !std::isfinite(epoch.validation_loss())) {
      return absl::FailedPreconditionError(absl::StrCat(what, ": the validation loss after epoch ",
                                                        probe.losses.size() + 1, " is not finite"));
    }
    probe.losses.push_back(epoch.validation_loss());
    probe.epoch_seconds = epoch.seconds() / static_cast<double>(probe.losses.size());
  }
  if (static_cast<int>(probe.losses.size()) != epochs) {
    return absl::DataLossError(absl::StrCat(what, ": epochs.csv of this run has ", probe.losses.size(),
                                            " of ", PluralText(epochs, "epoch")));
  }
  const absl::StatusOr<proto::RunSummary> summary = ReadSummary(run_dir);
  if (summary.ok()) probe.noise = NoiseScaleText(*summary);
  return probe;
}

std::vector<std::string> RowOf(const ShapedJob& job, const Probe& probe, const Probe& reference,
                               const std::vector<int>& shown) {
  std::vector<std::string> row = {StrategyName(job.plan.job()), absl::StrCat(job.shape.workers),
                                  absl::StrCat(job.shape.servers)};
  for (const int epoch : shown) row.push_back(absl::StrFormat("%.4f", probe.losses[epoch - 1]));
  const SampleRatio ratio = SamplesFor(probe.losses, reference.losses);
  const char* bound = ratio.kind == SampleRatio::Kind::kAtLeast  ? "over "
                      : ratio.kind == SampleRatio::Kind::kAtMost ? "under "
                                                                 : "";
  const double time = ratio.ratio * probe.epoch_seconds / reference.epoch_seconds;
  row.push_back(absl::StrFormat("%.4f", ratio.loss));
  row.push_back(absl::StrFormat("%s%.2f", bound, ratio.ratio));
  row.push_back(absl::StrFormat("%s%.2f", bound, time));
  return row;
}

// The loss at the end of the job, "0.31-0.33", or "unknown".
std::string LossAtEnd(const ShapedJob& job, const Probe& probe) {
  // The curve of losses is extrapolated only if the learning rate is constant.
  const proto::Optimizer& optimizer = job.plan.job().optimizer();
  if (!optimizer.schedule().has_constant()) return kUnknown;
  const absl::optional<LossRange> range = ContinuedLoss(probe.losses, EpochsOf(job.plan));
  if (!range.has_value()) return kUnknown;
  return absl::StrFormat("%.4f-%.4f", range->low, range->high);
}

std::string TextOf(const std::vector<ShapedJob>& jobs, const std::vector<absl::StatusOr<Probe>>& probes,
                   int epochs) {
  std::vector<int> shown;
  for (int i = 1; i <= kShownEpochs; ++i) {
    const int epoch = (epochs * i + kShownEpochs - 1) / kShownEpochs;
    if (shown.empty() || epoch != shown.back()) shown.push_back(epoch);
  }
  std::vector<Column> columns = {{{"strategy"}, true}, {{"workers"}}, {{"servers"}}};
  for (const int epoch : shown) columns.push_back({{"loss,", absl::StrCat("epoch ", epoch)}});
  columns.push_back({{"lowest", "of both"}});
  columns.push_back({{"samples", "for it"}});
  columns.push_back({{"time", "for it"}});
  const double all = EpochsOf(jobs[0].plan);
  if (all > epochs) columns.push_back({{"loss,", absl::StrFormat("epoch %.4g", all)}});
  std::vector<std::vector<std::string>> rows;
  std::string failed;
  bool unknown = false;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (!probes[i].ok()) {
      absl::StrAppend(&failed, "failed: ", probes[i].status().message(), "\n");
      continue;
    }
    rows.push_back(RowOf(jobs[i], *probes[i], *probes[0], shown));
    if (all <= epochs) continue;
    rows.back().push_back(LossAtEnd(jobs[i], *probes[i]));
    unknown = unknown || rows.back().back() == kUnknown;
  }
  std::string text = Wrap(
      absl::StrCat(
          "Probes: each row is a job that trained its first ", PluralText(epochs, "epoch"),
          ", from the same initial values. `lowest of both` is the lowest validation loss that both this "
          "job and the job of the first row reached. `samples for it` and `time for it` say what the job "
          "needed to reach this loss, as a multiple of what the job of the first row needed. Each job ran "
          "once, so differences of some percent may be chance."),
      "", kWidth);
  absl::StrAppend(&text, Table(columns, rows), failed);
  if (unknown) {
    absl::StrAppend(
        &text, Wrap(absl::StrCat("Unknown: a loss curve is extrapolated to the end of the job only if the "
                                 "learning rate is constant, the probe has at least ",
                                 kLeastContinued,
                                 " epochs, and the first four fifths of the curve predict its last fifth "
                                 "within 10 %. tethys compare --target_accuracy trains the jobs to the end."),
                    "", kWidth));
  }
  // Only the first probe has a noise scale: in the other probes, the gradients of a step may be computed from
  // different versions of the parameters.
  if (!probes[0]->noise.empty()) absl::StrAppend(&text, Wrap(probes[0]->noise, "", kWidth));
  return text;
}

}  // namespace

absl::Status CheckProbes(const BaseJob& base, int epochs) {
  if (base.plan.validation_samples() == 0) {
    return absl::InvalidArgumentError(
        "--probe_epochs compares validation losses, and the job has no validation samples: add "
        "--set=data.validation_samples=N to take N samples from the end of the training files");
  }
  const double trained = EpochsOf(base.plan);
  if (epochs > trained) {
    return absl::InvalidArgumentError(
        absl::StrFormat("--probe_epochs=%d: the job itself trains %.4g epochs, so write at most this number",
                        epochs, trained));
  }
  if (base.slots < kLeastSlots) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--probe_epochs trains asynchronously, which requires two workers and a server, but these machines "
        "have only ",
        PluralText(base.slots, "slot"),
        base.hosts.empty() ? ": on one machine, a job of three processes gets three slots, for example by "
                             "--set=strategy=mirrored --set=workers=3"
                           : ": name more hosts in the host file, or more slots"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> RunProbes(const Flags& flags, const std::vector<ShapedJob>& jobs, int epochs) {
  std::vector<proto::Job> shortened;
  for (const ShapedJob& job : jobs) {
    TETHYS_ASSIGN_OR_RETURN(proto::Job one, ProbeJob(job.plan, epochs));
    shortened.push_back(std::move(one));
  }
  TETHYS_ASSIGN_OR_RETURN(const std::vector<Places> places, PlaceJobs(flags, shortened));
  // The plans are made before interrupts are held, because making a plan reads all data, and an interrupt
  // must be able to end this.
  std::vector<proto::JobPlan> plans;
  for (size_t i = 0; i < jobs.size(); ++i) {
    TETHYS_ASSIGN_OR_RETURN(proto::JobPlan plan, PrepareJob(shortened[i]));
    *plan.mutable_worker_device() = jobs[i].plan.worker_device();
    plans.push_back(std::move(plan));
  }
  // Holds interrupts until the scratch directory has been removed, so that an interrupt leaves no files
  // behind.
  const InterruptsHeld held;
  TETHYS_ASSIGN_OR_RETURN(const ScratchDirectory scratch, ScratchDirectory::Create());
  std::vector<absl::StatusOr<Probe>> probes;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const std::string name = AnchorText(jobs[i].shape);
    PrintLine(absl::StrCat("probing ", name, " for ", PluralText(epochs, "epoch")));
    const std::string run_dir = absl::StrCat(scratch.path(), "/probe-", i);
    const std::string what = absl::StrCat("the probe of ", name);
    const absl::Status ran =
        RunQuietly(what, plans[i], places[i], run_dir, flags.GetAll("cuda_library_path"));
    absl::StatusOr<Probe> probe = ran.ok() ? ReadProbe(run_dir, epochs, what) : ran;
    if (!probe.ok() && (i == 0 || absl::IsCancelled(ran))) return probe.status();
    probes.push_back(std::move(probe));
  }
  return TextOf(jobs, probes, epochs);
}

}  // namespace tethys
