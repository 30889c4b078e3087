#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/types/optional.h"
#include "deploy/command/command.h"
#include "deploy/command/initial_values.h"
#include "deploy/command/job_description.h"
#include "deploy/command/job_places.h"
#include "deploy/command/job_run.h"
#include "deploy/command/role_process.h"
#include "deploy/command/target_accuracy.h"
#include "deploy/command/version.h"
#include "deploy/hosts/remote_run_dir.h"
#include "deploy/launcher/progress_display.h"
#include "deploy/report/comparison.h"
#include "deploy/report/job_differences.h"
#include "deploy/report/report.h"
#include "deploy/report/report_data.h"
#include "deploy/report/resource_table.h"
#include "deploy/report/time_to_accuracy.h"
#include "deploy/text.h"
#include "runtime/base/build_id.h"
#include "runtime/base/clock.h"
#include "runtime/job/job.h"
#include "runtime/job/job_file.h"
#include "runtime/telemetry/summary.h"
#include "workers/plan_job.h"

namespace tethys {
namespace {

constexpr char kDescription[] =
    "Trains every combination of the given jobs and the values of --vary, --repeats times each with seeds "
    "one apart, and prints tables (accuracy, time, throughput, communication; time to accuracy; resources) "
    "and a verdict. "
    "All combinations run once before any runs again, so that a machine that grows slower or faster does so "
    "for all.\n\nEach run has a directory of its own in the run directory, which also gets comparison.csv "
    "and comparison_resources.csv. A run that fails is shown as such and the others go on. Exit status: 0 "
    "all runs succeeded; 2 the request was wrong and nothing was started; 1 a run failed, or the user "
    "interrupted.";

constexpr int kTextWidth = 100;  // Width of sentences if there is no terminal.

// A run that the comparison makes.
struct PlannedRun {
  proto::JobPlan plan;
  Places places;
  RunRecord record;
};

struct Request {
  std::vector<Variation> variations;  // From --vary; only those that have a column in the tables.
  std::vector<VariantLabel> labels;   // One per variant.
  std::vector<PlannedRun> runs;       // In the order of execution.
  std::string differences;            // Fields in which the jobs differ (DifferencesText).
  JobRunOptions options;              // Options of every run, except its places.
  absl::optional<double> target;      // --target_accuracy
};

std::string GradientScaleText(const proto::Job& job) {
  return GradientScale(job) == proto::Asynchronous::PUSH_MEAN ? "push" : "global";
}

// The strategy always has a column, so varying it adds no column.
bool HasColumn(const Variation& variation) { return variation.field != "strategy"; }

// `values`: the values of the variations that have a column.
VariantLabel LabelOf(const proto::Job& job, std::vector<std::string> values) {
  return {.job = job.name(),
          .strategy = StrategyName(job),
          .workers = job.workers(),
          .servers = ServerCount(job),
          .global_batch = GlobalBatch(job),
          .gradient_scale = GradientScaleText(job),
          .values = std::move(values)};
}

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

// A row of the table: a job file with values for the variations that apply to its job.
struct PlannedVariant {
  Variant variant;
  std::vector<std::string> varied;  // FIELD=VALUE
  proto::Job job;
};

// Lists the variants in the order of the tables. InvalidArgument: a job is wrong, or a variation applies to
// no job.
absl::StatusOr<std::vector<PlannedVariant>> PlanVariants(const Flags& flags,
                                                         const std::vector<Variation>& variations) {
  std::vector<PlannedVariant> planned;
  std::set<std::pair<int, std::vector<std::string>>> seen;
  std::vector<bool> concerns_some(variations.size(), false);
  for (Variant& variant : AllVariants(static_cast<int>(flags.arguments().size()), variations)) {
    const std::vector<std::string> all = VariantOverrides(variant, variations);
    const std::string& file = flags.arguments()[variant.job];
    TETHYS_ASSIGN_OR_RETURN(JobVariant loaded, LoadJobVariant(file, flags.GetAll("set"), all));
    TETHYS_RETURN_IF_ERROR(PriceByHosts(flags, loaded.job));
    std::vector<std::string> varied;
    for (size_t i = 0; i < variations.size(); ++i) {
      concerns_some[i] = concerns_some[i] || loaded.varied[i];
      if (loaded.varied[i]) {
        varied.push_back(all[i]);
      } else {
        variant.values[i] = kNotVaried;
      }
    }
    if (!seen.insert({variant.job, variant.values}).second) continue;
    planned.push_back({std::move(variant), std::move(varied), std::move(loaded.job)});
  }
  for (size_t i = 0; i < variations.size(); ++i) {
    if (concerns_some[i]) continue;
    return absl::InvalidArgumentError(absl::StrCat("--vary=", variations[i].field,
                                                   ": none of these jobs has this field, which belongs to "
                                                   "another strategy or choice: add a job that has it"));
  }
  return planned;
}

absl::StatusOr<Request> PrepareRuns(const Flags& flags) {
  Request request;
  ReadDisplayFlags(flags, request.options);
  request.options.cuda_library_path = flags.GetAll("cuda_library_path");
  std::vector<Variation> variations;
  for (const std::string& text : flags.GetAll("vary")) {
    TETHYS_ASSIGN_OR_RETURN(Variation variation, ParseVariation(text));
    if (HasColumn(variation)) request.variations.push_back(variation);
    variations.push_back(std::move(variation));
  }
  TETHYS_ASSIGN_OR_RETURN(request.target, GivenTarget(flags));
  TETHYS_ASSIGN_OR_RETURN(const int64_t repeats, flags.GetInteger("repeats", 1, 1, 1000));
  TETHYS_ASSIGN_OR_RETURN(const std::vector<PlannedVariant> variants, PlanVariants(flags, variations));
  std::vector<proto::Job> jobs;
  for (const PlannedVariant& variant : variants) {
    std::vector<std::string> values;
    for (size_t i = 0; i < variations.size(); ++i) {
      if (HasColumn(variations[i])) values.push_back(variant.variant.values[i]);
    }
    request.labels.push_back(LabelOf(variant.job, std::move(values)));
    jobs.push_back(variant.job);
  }
  request.differences = DifferencesText(JobDifferences(jobs), ShortNames(jobs));
  jobs.clear();
  JobPreparer preparer;
  std::set<std::string> names;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    for (size_t i = 0; i < variants.size(); ++i) {
      proto::Job job = variants[i].job;
      job.set_seed(job.seed() + repeat);
      std::string name = job.name();
      for (const std::string& change : variants[i].varied) absl::StrAppend(&name, "-", change);
      name = FileNameText(absl::StrCat(name, "-r", repeat));
      if (!names.insert(name).second) {
        return absl::InvalidArgumentError(absl::StrCat(flags.arguments()[variants[i].variant.job],
                                                       ": another job given is called ", job.name(),
                                                       " too: give one of them another name (field name)"));
      }
      PlannedRun run;
      absl::StatusOr<proto::JobPlan> plan = preparer.Prepare(job);
      if (!plan.ok()) {
        return WithPlace(plan.status(), flags.arguments()[variants[i].variant.job], flags.GetAll("set"),
                         variants[i].varied);
      }
      run.plan = *std::move(plan);
      run.record = {.variant = static_cast<int>(i), .repeat = repeat, .seed = job.seed(), .run_dir = name};
      request.runs.push_back(std::move(run));
    }
  }
  for (const PlannedRun& run : request.runs) jobs.push_back(run.plan.job());
  TETHYS_ASSIGN_OR_RETURN(std::vector<Places> places, PlaceJobs(flags, jobs));
  for (size_t i = 0; i < request.runs.size(); ++i) {
    PlannedRun& run = request.runs[i];
    run.places = std::move(places[i]);
    run.plan.mutable_worker_device()->Add(run.places.worker_devices.begin(), run.places.worker_devices.end());
  }
  return request;
}

// The summary of `run` if an interrupted comparison has finished this run. nullopt: the run has to be made.
// If it was finished with another build or job, prints that as the reason.
absl::optional<proto::RunSummary> FinishedBefore(const PlannedRun& run) {
  const absl::StatusOr<proto::RunSummary> summary = ReadSummary(run.record.run_dir);
  if (!summary.ok() || summary->status() != "succeeded") return absl::nullopt;
  const char* change = summary->build_id() != BuildId()             ? "another build made it"
                       : summary->job_hash() != run.plan.job_hash() ? "its job has changed since"
                                                                    : nullptr;
  if (change == nullptr) return *summary;
  std::printf("  not kept: %s\n", change);
  return absl::nullopt;
}

// Renames the directory of a run that is made again, so that the user keeps its files.
absl::Status MoveAside(const std::string& run_dir) {
  if (!FileExists(run_dir)) return absl::OkStatus();
  std::string aside;
  for (int i = 1; aside.empty() || FileExists(aside); ++i) aside = absl::StrCat(run_dir, ".old-", i);
  std::printf("  what it left before is now in %s\n", aside.c_str());
  if (std::rename(run_dir.c_str(), aside.c_str()) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("cannot rename ", run_dir, " to ", aside));
}

// Makes one run and fills its record.
void MakeRun(PlannedRun& run, JobRunOptions options) {
  RunRecord& record = run.record;
  const absl::StatusOr<RunDirectory> directory = RunDirectory::Create(record.run_dir);
  if (!directory.ok()) {
    record.status = directory.status();
    return;
  }
  options.places = run.places;
  const RunResult result = RunJob(run.plan, *directory, options);
  record.status = result.status;
  if (!result.status.ok()) {
    std::printf("failed: %s\n%s\n", std::string(result.status.message()).c_str(), result.log_tail.c_str());
    return;
  }
  absl::StatusOr<proto::RunSummary> summary = ReadSummary(record.run_dir);
  record.status = summary.status();
  if (summary.ok()) record.summary = *std::move(summary);
  std::printf("%s\n\n", OutcomeText(run.plan.job(), record.run_dir).c_str());
}

// Writes the report and prints its verdict.
void ReportAndPrintVerdict(const Request& request, const std::string& directory, int width) {
  const absl::StatusOr<proto::Report> report = CollectReport(directory, request.target, ShortVersionText());
  const absl::Status written = report.ok() ? WriteReport(*report, directory) : report.status();
  if (report.ok()) {
    std::printf("Verdict\n\n");
    for (const std::string& sentence : report->verdict()) {
      std::printf("%s", Wrap(sentence, "  ", width).c_str());
    }
    std::printf("\n");
  }
  if (!written.ok()) std::printf("no report: %s\n", StatusText(written).c_str());
}

// Prints the tables and the verdict, writes comparison.csv, and returns the exit status. `again`: the command
// that resumes this comparison.
int Conclude(const Request& request, const std::vector<RunRecord>& records, const std::string& directory,
             const std::string& again) {
  const int width = TerminalColumns(STDOUT_FILENO);
  std::printf("%s\n", ComparisonTable(request.labels, request.variations, records, width).c_str());
  const Target target = TargetOf(records, request.target);
  const std::string to_target = TargetTable(request.labels, request.variations, records, target, width);
  if (!to_target.empty()) std::printf("%s\n", to_target.c_str());
  const std::string resources = ResourceTables(request.labels, request.variations, records, width);
  if (!resources.empty()) std::printf("%s\n", resources.c_str());
  const std::string csv = directory + "/comparison.csv";
  const absl::Status written =
      WriteFileAtomically(csv, ComparisonCsv(request.labels, request.variations, records, target));
  if (!written.ok()) return Fail("compare", written, kExitFailed);
  const absl::Status resources_written = WriteFileAtomically(
      directory + "/comparison_resources.csv", ResourceCsv(request.labels, request.variations, records));
  if (!resources_written.ok()) return Fail("compare", resources_written, kExitFailed);
  ReportAndPrintVerdict(request, directory, width > 0 ? width : kTextWidth);
  std::printf("results in %s and the directories beside it; %s/report.html shows them\n", csv.c_str(),
              directory.c_str());
  int failed = 0;
  for (const RunRecord& record : records) failed += record.status.ok() ? 0 : 1;
  const int missing = static_cast<int>(request.runs.size() - records.size());
  if (failed + missing == 0) return kExitSuccess;
  return Fail("compare",
              absl::AbortedError(absl::StrCat(failed, " of ", request.runs.size(), " runs did not succeed, ",
                                              missing, " were not started\ngo on with: ", again)),
              kExitFailed);
}

// `word`, quoted if a shell would change it.
std::string ShellWord(const std::string& word) {
  constexpr char kPlain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./,:=+@%";
  return word.find_first_not_of(kPlain) == std::string::npos ? word : ShellQuote(word);
}

// The given command, changed to resume the comparison in `path`.
std::string ResumeCommand(const Flags& flags, const std::string& path) {
  std::string command = "tethys compare";
  for (size_t i = 0; i < flags.words().size(); ++i) {
    const std::string& word = flags.words()[i];
    if (word == "--resume" || absl::StartsWith(word, "--run_dir=")) continue;
    if (word == "--run_dir") {
      ++i;  // Skips the flag's value.
      continue;
    }
    absl::StrAppend(&command, " ", ShellWord(word));
  }
  return absl::StrCat(command, " --resume --run_dir=", ShellWord(path));
}

// Checks that `path` holds no comparison yet. With --resume, checks instead that `path` exists.
absl::Status CheckPlace(const Flags& flags, const std::string& path) {
  if (flags.Has("resume")) {
    if (!flags.Has("run_dir")) {
      return absl::InvalidArgumentError("--resume needs --run_dir=DIR, the comparison to go on with");
    }
    if (FileExists(path)) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat(path, " is not there: nothing was compared in it"));
  }
  if (!FileExists(path + "/comparison.csv")) return absl::OkStatus();
  return absl::FailedPreconditionError(
      path + " holds a comparison already: go on with it by --resume, or name another by --run_dir");
}

// ", about 2:10 left of all": an estimate for the whole comparison; empty before the first run was made.
std::string TimeLeftText(const Request& request, size_t next, const std::vector<RunTime>& times) {
  std::vector<int> to_come;
  for (size_t i = next; i < request.runs.size(); ++i) to_come.push_back(request.runs[i].record.variant);
  const absl::optional<double> seconds = SecondsLeft(times, to_come);
  return seconds.has_value() ? absl::StrCat(", about ", DurationText(*seconds), " left of all") : "";
}

int Compare(const Flags& flags) {
  absl::StatusOr<Request> request = PrepareRuns(flags);
  if (!request.ok()) return Fail("compare", request.status(), kExitBadRequest);
  const bool resume = flags.Has("resume");
  const std::string path = flags.Has("run_dir") ? flags.Get("run_dir") : FreshRunPath("compare");
  const absl::Status place = CheckPlace(flags, path);
  if (!place.ok()) return Fail("compare", place, kExitBadRequest);
  const absl::StatusOr<RunDirectory> directory = RunDirectory::Create(path);
  if (!directory.ok()) return Fail("compare", directory.status(), kExitBadRequest);

  if (!request->differences.empty()) {
    const int width = TerminalColumns(STDOUT_FILENO);
    std::printf("%s\n", Wrap(absl::StrCat("The jobs differ in more than strategy, processes and batch: ",
                                          request->differences),
                             "", width > 0 ? width : kTextWidth)
                            .c_str());
  }
  const MonotonicClock clock;
  std::vector<RunRecord> records;
  std::vector<RunTime> times;
  for (PlannedRun& run : request->runs) {
    std::printf("run %zu of %zu: %s, seed %llu%s\n%s", records.size() + 1, request->runs.size(),
                run.record.run_dir.c_str(), static_cast<unsigned long long>(run.record.seed),
                TimeLeftText(*request, records.size(), times).c_str(),
                run.record.repeat == 0 ? JobSummary(run.plan).c_str() : "");
    std::fflush(stdout);
    run.record.run_dir = absl::StrCat(path, "/", run.record.run_dir);
    absl::optional<proto::RunSummary> finished;
    if (resume) run.record.status = FetchLeftRunDir(flags.Get("ssh_config"), run.record.run_dir, PrintLine);
    if (resume && run.record.status.ok()) finished = FinishedBefore(run);
    if (!run.record.status.ok()) {
      std::printf("failed: %s\n", std::string(run.record.status.message()).c_str());
    } else if (finished.has_value()) {
      run.record.summary = *std::move(finished);
      std::printf("  finished before: kept\n\n");
    } else if (run.record.status = resume ? MoveAside(run.record.run_dir) : absl::OkStatus();
               run.record.status.ok()) {
      const Nanoseconds begin = clock.Now();
      MakeRun(run, request->options);
      times.push_back({run.record.variant, ToSeconds(clock.Now() - begin)});
    }
    const std::string epochs = run.record.run_dir + "/epochs.csv";
    run.record.epochs = ParseEpochs(ReadFile(epochs).value_or(""));
    records.push_back(run.record);
    if (absl::IsCancelled(run.record.status)) break;
  }
  return Conclude(*request, records, path, ResumeCommand(flags, path));
}

}  // namespace

Command CompareCommand() {
  return {
      {.verb = "compare",
       .summary = "Trains several jobs and prints how they compare.",
       .description = kDescription,
       .argument = "JOB",
       .many_arguments = true,
       .flags = WithDisplayFlags(WithClusterFlags(
           {{.name = "vary",
             .value = "FIELD=V1,V2,...",
             .help =
                 "Trains each job with each of these values; given more than once, with all combinations. "
                 "A field of a strategy (strategy.parameter_server.servers) varies the jobs of that strategy "
                 "only; strategy=mirrored,parameter_server varies the strategy itself.",
             .repeated = true},
            {.name = "repeats", .value = "N", .help = "Runs of each combination. Default 1."},
            TargetAccuracyFlag(),
            {.name = "run_dir",
             .value = "DIR",
             .help = "Directory for results. Default: a new runs/compare-DATE-TIME."},
            {.name = "resume",
             .help = "Goes on with an interrupted comparison in --run_dir, called as before: runs that "
                     "succeeded are kept if build and job are the same, all others are made again."},
            {.name = "set",
             .value = "FIELD=VALUE",
             .help = "Replaces a field of every job.",
             .repeated = true},
            CudaLibraryPathFlag()})),
       .examples =
           {"tethys compare examples/fashion_mnist_mirrored.textproto "
            "examples/fashion_mnist_ps_async.textproto --vary=batch_size_per_worker=64,128 --repeats=3"}},
      Compare};
}

}  // namespace tethys
