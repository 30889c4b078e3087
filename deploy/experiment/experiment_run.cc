#include "deploy/experiment/experiment_run.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "deploy/describe/job_description.h"
#include "deploy/describe/job_remarks.h"
#include "deploy/hosts/remote_run_dir.h"
#include "deploy/launcher/progress_display.h"
#include "deploy/launcher/run_ending.h"
#include "deploy/process/signal_source.h"
#include "deploy/report/comparison.h"
#include "deploy/report/others_cpu.h"
#include "deploy/report/time_to_accuracy.h"
#include "deploy/run/initial_values.h"
#include "deploy/run/job_places.h"
#include "deploy/run/job_prediction.h"
#include "deploy/text.h"
#include "runtime/base/build_id.h"
#include "runtime/base/clock.h"
#include "runtime/job/job_file.h"
#include "runtime/telemetry/csv_reader.h"
#include "runtime/telemetry/summary.h"
#include "workers/plan_job.h"

namespace tethys {
namespace {

constexpr char kAside[] = ".aside";

// Plans jobs, and checks each set of data only once.
class JobPreparer {
 public:
  absl::StatusOr<proto::JobPlan> Prepare(const proto::Job& job) {
    const bool known = !checked_.insert(job.data().SerializeAsString()).second;
    absl::StatusOr<proto::JobPlan> plan = known ? PlanJob(job) : PrepareJob(job);
    if (plan.ok()) TETHYS_RETURN_IF_ERROR(CheckInitialValues(*plan));
    return plan;
  }

 private:
  std::set<std::string> checked_;
};

double WallSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Returns `flags` with `hostfile` as the value of --hostfile; unchanged if `hostfile` is empty.
absl::StatusOr<Flags> WithHostfile(const Flags& flags, const CommandSpec& spec, const std::string& hostfile) {
  if (hostfile.empty()) return flags;
  std::vector<std::string> words;
  bool value_follows = false;
  for (const std::string& word : flags.words()) {
    const bool skipped = value_follows || word == "--hostfile" || absl::StartsWith(word, "--hostfile=");
    value_follows = !value_follows && word == "--hostfile";
    if (!skipped) words.push_back(word);
  }
  words.insert(std::find(words.begin(), words.end(), "--"), "--hostfile=" + hostfile);
  return ParseFlags(spec, words);
}

// Assigns the processes of all variants to machines. Variants with the same host file are handled together,
// so that each machine of the file is prepared once.
absl::Status PlaceVariants(const Flags& flags, const CommandSpec& spec,
                           std::vector<ExperimentVariant>& variants) {
  std::map<std::string, std::vector<ExperimentVariant*>> by_hosts;
  for (ExperimentVariant& variant : variants) by_hosts[variant.hostfile].push_back(&variant);
  for (const auto& [hostfile, group] : by_hosts) {
    TETHYS_ASSIGN_OR_RETURN(const Flags own, WithHostfile(flags, spec, hostfile));
    std::vector<proto::Job> jobs;
    for (const ExperimentVariant* variant : group) jobs.push_back(variant->plan.job());
    TETHYS_ASSIGN_OR_RETURN(std::vector<Places> places, PlaceJobs(own, jobs));
    for (size_t i = 0; i < group.size(); ++i) {
      group[i]->places = std::move(places[i]);
      const auto& devices = group[i]->places.worker_devices;
      group[i]->plan.mutable_worker_device()->Add(devices.begin(), devices.end());
    }
  }
  return absl::OkStatus();
}

// The plan of a variant's run in a block. Plans of different blocks differ only in the seed.
absl::StatusOr<proto::JobPlan> PlanOf(const ExperimentVariant& variant, int block) {
  if (block == 0) return variant.plan;
  proto::Job job = variant.plan.job();
  job.set_seed(job.seed() + block);
  TETHYS_ASSIGN_OR_RETURN(proto::JobPlan plan, PlanJob(job));
  *plan.mutable_worker_device() = variant.plan.worker_device();
  return plan;
}

// The summary of a run if the run succeeded with this build and job. nullopt: the run has to be made. If the
// run succeeded with another build or another job, prints why the run is not kept.
absl::optional<proto::RunSummary> FinishedBefore(const std::string& run_dir, const proto::JobPlan& plan) {
  const absl::StatusOr<proto::RunSummary> summary = ReadSummary(run_dir);
  if (!summary.ok() || summary->status() != "succeeded") return absl::nullopt;
  const char* change = summary->build_id() != BuildId()         ? "another build made this run"
                       : summary->job_hash() != plan.job_hash() ? "the job has changed since this run"
                                                                : nullptr;
  if (change == nullptr) return *summary;
  std::printf("  not kept: %s\n", change);
  return absl::nullopt;
}

absl::Status Rename(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("cannot rename ", from, " to ", to));
}

// Renames the directory of a run that is made again, so that the user keeps its files.
absl::Status MoveAway(const std::string& run_dir) {
  if (!FileExists(run_dir)) return absl::OkStatus();
  std::string away;
  for (int i = 1; away.empty() || FileExists(away); ++i) away = absl::StrCat(run_dir, ".old-", i);
  std::printf("  the files of the earlier attempt of this run are now in %s\n", away.c_str());
  return Rename(run_dir, away);
}

// Makes one run and sets the record's status and summary.
void MakeRun(const proto::JobPlan& plan, JobRunOptions options, RunRecord& record) {
  const absl::StatusOr<RunDirectory> directory = RunDirectory::Create(record.run_dir);
  record.status = directory.status();
  if (!directory.ok()) return;
  const RunResult result = RunJob(plan, *directory, options);
  record.status = result.status;
  if (!result.status.ok()) {
    std::printf("failed: %s\n%s\n", std::string(result.status.message()).c_str(), result.log_tail.c_str());
    return;
  }
  absl::StatusOr<proto::RunSummary> summary = ReadSummary(record.run_dir);
  record.status = summary.status();
  if (summary.ok()) record.summary = *std::move(summary);
  std::printf("%s\n\n", OutcomeText(plan.job(), record.run_dir).c_str());
}

// Makes an experiment's runs in order and collects their results.
class Runner {
 public:
  Runner(const Experiment& experiment, const std::string& directory)
      : experiment_(experiment), directory_(directory), schedule_(OptionsOf(experiment)) {
    if (experiment.resume) earlier_ = ReadFile(directory + "/runs.csv").value_or("");
  }

  ExperimentResults Run() {
    // While `held` exists, an interrupt between two runs ends the experiment and not this process.
    InterruptsHeld held;
    SaveCommand();
    while (const absl::optional<RunSlot> slot = schedule_.Next()) {
      Announce(*slot);
      MadeRun run = MakeOrKeep(*slot);
      const bool interrupted = absl::IsCancelled(run.record.status);
      const bool disturbed = IsDisturbed(run);
      results_.runs.push_back(std::move(run));
      if (slot->again) KeepLessDisturbed(results_.runs.back());
      schedule_.Finished(disturbed);
      Save();
      if (interrupted) break;
      TellStanding(slot->block);
      if (!schedule_.Next()) AddBlockIfTooWide();
      if (InterruptPending()) break;
    }
    held.ReleaseAndDiscard();  // Discards an interrupt, so that the results are still reported.
    results_.missing = static_cast<int>(schedule_.ToCome().size());
    return std::move(results_);
  }

 private:
  static ScheduleOptions OptionsOf(const Experiment& experiment) {
    ScheduleOptions options = experiment.schedule;
    options.variants = static_cast<int>(experiment.variants.size());
    return options;
  }

  std::string DirectoryOf(const RunSlot& slot) const {
    return absl::StrCat(directory_, "/", experiment_.variants[slot.variant].name, "-r", slot.block);
  }

  // Prints a line before a run: "run 3 of 12: NAME-r0, seed 1, about 2:10 left for all runs".
  void Announce(const RunSlot& slot) const {
    const std::vector<RunSlot> to_come = schedule_.ToCome();
    std::vector<int> variants;
    for (const RunSlot& next : to_come) variants.push_back(next.variant);
    absl::optional<double> left = SecondsLeft(times_, variants);
    if (!left.has_value()) left = PredictedSeconds(experiment_, variants);
    const ExperimentVariant& variant = experiment_.variants[slot.variant];
    std::printf(
        "run %zu of %zu: %s-r%d, seed %llu%s%s\n%s", results_.runs.size() + 1,
        results_.runs.size() + to_come.size(), variant.name.c_str(), slot.block,
        static_cast<unsigned long long>(variant.job.seed() + slot.block),
        slot.again ? ", again because other programs disturbed it" : "",
        left.has_value() ? absl::StrCat(", about ", DurationText(*left), " left for all runs").c_str() : "",
        slot.block == 0 && !slot.again ? Header(variant).c_str() : "");
    std::fflush(stdout);
  }

  // The text before the first run of a variant: for the first variant the whole summary of the job, for every
  // other variant the parts of the summary that may differ.
  std::string Header(const ExperimentVariant& variant) const {
    const int cores = variant.hostfile.empty() ? CoresHere() : 0;
    const std::string summary = JobSummary(variant.plan, cores);
    if (results_.runs.empty()) return summary;
    std::string text = summary.substr(0, summary.find('\n') + 1);
    for (const std::string& remark : JobRemarks(variant.plan, cores)) {
      absl::StrAppend(&text, WrapBeside("  note", remark, kSummaryIndent, kSummaryWidth));
    }
    return text;
  }

  // Prints the mean training times so far, if a block has ended and another block follows.
  void TellStanding(int block) const {
    const absl::optional<RunSlot> next = schedule_.Next();
    if (!next.has_value() || next->block == block) return;
    const std::string standing = StandingText(experiment_, results_);
    const int columns = TerminalColumns(STDOUT_FILENO);
    if (!standing.empty())
      std::printf("%s\n", Wrap(standing, "", columns > 0 ? columns : kSummaryWidth).c_str());
  }

  MadeRun MakeOrKeep(const RunSlot& slot) {
    const ExperimentVariant& variant = experiment_.variants[slot.variant];
    MadeRun run;
    run.order = static_cast<int>(results_.runs.size()) + 1;
    run.record.variant = slot.variant;
    run.record.repeat = slot.block;
    run.record.seed = variant.job.seed() + slot.block;
    run.record.run_dir = DirectoryOf(slot);
    const absl::StatusOr<proto::JobPlan> plan = PlanOf(variant, slot.block);
    run.record.status = plan.status();
    if (run.record.status.ok() && slot.again) run.record.status = PutAside(run.record.run_dir);
    if (run.record.status.ok() && experiment_.resume && !slot.again) {
      run.record.status = FetchLeftRunDir(experiment_.ssh_config, run.record.run_dir, PrintLine);
      const auto finished =
          run.record.status.ok() ? FinishedBefore(run.record.run_dir, *plan) : absl::nullopt;
      if (finished.has_value()) {
        run.record.summary = *finished;
        std::printf("  this run finished before, and is kept\n\n");
        SetEarlierTimes(run);
        if (run.seconds > 0) times_.push_back({slot.variant, run.seconds});
        ReadEpochs(run.record);
        return run;
      }
      if (run.record.status.ok()) run.record.status = MoveAway(run.record.run_dir);
    }
    if (!run.record.status.ok()) {
      std::printf("failed: %s\n", std::string(run.record.status.message()).c_str());
      return run;
    }
    JobRunOptions options = experiment_.options;
    options.places = variant.places;
    options.expectation = variant.expectation;
    const Nanoseconds begin = clock_.Now();
    run.start = WallSeconds();
    MakeRun(*plan, options, run.record);
    run.seconds = ToSeconds(clock_.Now() - begin);
    if (run.record.status.ok()) times_.push_back({slot.variant, run.seconds});
    ReadEpochs(run.record);
    return run;
  }

  static void ReadEpochs(RunRecord& record) {
    record.epochs = ParseEpochs(ReadFile(record.run_dir + "/epochs.csv").value_or(""));
  }

  // True if other programs disturbed the run, and the run is not itself a repetition.
  bool IsDisturbed(const MadeRun& run) const {
    if (!run.record.status.ok() || FileExists(run.record.run_dir + kAside)) return false;
    if (run.record.summary.attempt_size() > 1) {
      std::printf(
          "  a process was lost and all processes started again: this run is made again at the end of its "
          "block\n\n");
      return true;
    }
    const absl::optional<double> others = OthersCpuOf(run.record.summary);
    if (others.value_or(0) <= experiment_.most_others_cpu) return false;
    std::printf(
        "  other programs used %.0f %% of the CPU: this run is made again at the end of its block\n\n",
        *others * 100);
    return true;
  }

  // Renames the directory of a run that will be repeated.
  absl::Status PutAside(const std::string& run_dir) {
    TETHYS_RETURN_IF_ERROR(Rename(run_dir, run_dir + kAside));
    for (MadeRun& run : results_.runs) {
      if (run.record.run_dir != run_dir) continue;
      run.put_aside = true;
      run.record.run_dir = run_dir + kAside;
    }
    return absl::OkStatus();
  }

  // If the earlier run was less disturbed than its repetition, exchanges the directories of the two runs.
  void KeepLessDisturbed(MadeRun& repetition) {
    const std::string run_dir = repetition.record.run_dir;
    for (MadeRun& first : results_.runs) {
      if (first.record.run_dir != run_dir + kAside) continue;
      const bool better =
          repetition.record.status.ok() &&
          OthersCpuOf(repetition.record.summary).value_or(0) <= OthersCpuOf(first.record.summary).value_or(0);
      if (better || absl::IsCancelled(repetition.record.status)) return;
      const std::string between = run_dir + kAside + ".old-1";
      const bool exchanged = Rename(run_dir, between).ok() && Rename(run_dir + kAside, run_dir).ok() &&
                             Rename(between, run_dir + kAside).ok();
      if (!exchanged) return;
      std::swap(first.record.run_dir, repetition.record.run_dir);
      std::swap(first.put_aside, repetition.put_aside);
      return;
    }
  }

  void AddBlockIfTooWide() {
    if (experiment_.until <= 0 || schedule_.blocks() >= experiment_.most_repeats) return;
    const std::vector<int> wide = VariantsNotWithin(experiment_.until, results_.Counted(),
                                                    static_cast<int>(experiment_.variants.size()));
    if (wide.empty()) return;
    std::printf(
        "the time of %s is not yet known to within %.3g %%, so each of these variants runs once "
        "more\n\n",
        PluralText(static_cast<int64_t>(wide.size()), "variant").c_str(), experiment_.until * 100);
    schedule_.AddBlock(wide);
  }

  // Sets the start and length of a kept run from the runs.csv of the interrupted command. If that command was
  // killed just after a run had ended, runs.csv lacks this run; the start and length then come from the run's
  // summary.
  void SetEarlierTimes(MadeRun& run) const {
    run.start = run.record.summary.began();
    run.seconds = run.record.summary.seconds();
    const std::string& path = run.record.run_dir;
    for (CsvReader csv(earlier_); csv.Next();) {
      if (csv.Text("run_dir") != path.substr(path.rfind('/') + 1)) continue;
      run.start = csv.Number("start");
      run.seconds = csv.Number("seconds");
    }
  }

  // Saves the command that continues the experiment. If a run of the experiment fails or is interrupted, the
  // advice to the user names this command (deploy/launcher/run_ending.h).
  void SaveCommand() const {
    const absl::Status saved =
        WriteFileAtomically(absl::StrCat(directory_, "/", kGoOnFile), experiment_.again + "\n");
    if (!saved.ok()) std::printf("warning: %s\n", std::string(saved.message()).c_str());
  }

  void Save() const {
    const absl::Status saved = WriteFileAtomically(directory_ + "/runs.csv", RunsCsv(experiment_, results_));
    if (!saved.ok()) std::printf("warning: %s\n", std::string(saved.message()).c_str());
  }

  const Experiment& experiment_;
  const std::string directory_;
  const MonotonicClock clock_;
  std::string earlier_;  // The text of runs.csv that the interrupted command wrote.
  RunSchedule schedule_;
  std::vector<RunTime> times_;
  ExperimentResults results_;
};

}  // namespace

std::vector<RunRecord> ExperimentResults::Counted() const {
  std::vector<RunRecord> counted;
  for (const MadeRun& run : runs) {
    if (!run.put_aside) counted.push_back(run.record);
  }
  return counted;
}

absl::Status PrepareExperiment(const Flags& flags, const CommandSpec& spec, Experiment& experiment) {
  JobPreparer preparer;
  std::set<std::string> names;
  for (ExperimentVariant& variant : experiment.variants) {
    if (!names.insert(variant.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(variant.file, ": another of the given jobs has the name ", variant.job.name(),
                       ", too: give one of the two jobs another name (field name)"));
    }
    TETHYS_ASSIGN_OR_RETURN(const Flags own, WithHostfile(flags, spec, variant.hostfile));
    TETHYS_RETURN_IF_ERROR(PriceByHosts(own, variant.job));
    absl::StatusOr<proto::JobPlan> plan = preparer.Prepare(variant.job);
    if (!plan.ok()) return WithPlace(plan.status(), variant.file, variant.set, variant.varied);
    variant.plan = *std::move(plan);
  }
  TETHYS_RETURN_IF_ERROR(PlaceVariants(flags, spec, experiment.variants));
  for (ExperimentVariant& variant : experiment.variants) {
    TETHYS_ASSIGN_OR_RETURN(const Flags own, WithHostfile(flags, spec, variant.hostfile));
    variant.expectation = ExpectationOfRun(variant.plan, own.Get("hostfile"), variant.places.tls);
  }
  return absl::OkStatus();
}

absl::optional<double> PredictedSeconds(const Experiment& experiment, const std::vector<int>& runs) {
  double seconds = 0;
  for (const int variant : runs) {
    const absl::optional<proto::Expectation>& expectation = experiment.variants[variant].expectation;
    if (!expectation.has_value() || !(expectation->prediction().total().value() > 0)) return absl::nullopt;
    seconds += expectation->prediction().total().value();
  }
  return seconds;
}

ExperimentResults RunExperiment(const Experiment& experiment, const std::string& directory) {
  return Runner(experiment, directory).Run();
}

}  // namespace tethys
