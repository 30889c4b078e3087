#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/types/optional.h"
#include "deploy/command/verbs.h"
#include "deploy/command/version.h"
#include "deploy/experiment/experiment_run.h"
#include "deploy/experiment/strategy_shapes.h"
#include "deploy/flags/target_accuracy.h"
#include "deploy/launcher/progress_display.h"
#include "deploy/report/comparison.h"
#include "deploy/report/job_differences.h"
#include "deploy/report/normalisation.h"
#include "deploy/report/report.h"
#include "deploy/report/report_data.h"
#include "deploy/report/resource_table.h"
#include "deploy/report/variant_name.h"
#include "deploy/run/job_places.h"
#include "deploy/text.h"
#include "runtime/job/job.h"
#include "runtime/job/job_file.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

constexpr char kDescription[] =
    "Trains every combination of the given jobs, of --strategies, --workers and --servers, and of the "
    "values of --vary. Each combination runs --repeats times, with consecutive seeds. Prints a verdict and "
    "tables of accuracy, time, throughput, speed-up, communication, time to accuracy, resources, and the "
    "CPU use of other programs. Every combination runs once before any combination runs again. From the "
    "second run of each combination on, the order is random, so that a machine that becomes slower or "
    "faster affects all combinations alike. A run that other programs disturbed is repeated once.\n\nEach "
    "run has a directory of its own in the run directory, which also gets comparison.csv, "
    "comparison_resources.csv and runs.csv. A run that fails is shown as failed, and the other runs go on. "
    "Exit status: 0 all runs succeeded; 2 the request was wrong and nothing was started; 1 a run failed, or "
    "the user interrupted.";

constexpr int kTextWidth = 100;  // The width, in characters, of wrapped text if there is no terminal.

struct Request {
  std::vector<Variation> variations;  // The variations of --vary that have a column in the tables.
  std::vector<VariantLabel> labels;   // One per variant.
  Experiment experiment;
  std::string differences;        // Fields in which the jobs differ (DifferencesText).
  absl::optional<double> target;  // The value of --target_accuracy.
};

std::string GradientScaleText(const proto::Job& job) {
  return GradientScale(job.strategy().parameter_server()) == proto::Asynchronous::PUSH_MEAN ? "push"
                                                                                            : "global";
}

// The strategy always has a column, so varying it adds no column.
bool HasColumn(const Variation& variation) { return variation.field != "strategy"; }

// `values`: the values of the variations that have a column.
VariantLabel LabelOf(const proto::Job& job, std::vector<std::string> values) {
  return {.job = job.name(),
          .strategy = StrategyName(job),
          .workers = job.workers(),
          .servers = ShapeOf(job).servers,
          .global_batch = GlobalBatch(job),
          .gradient_scale = GradientScaleText(job),
          .values = std::move(values)};
}

// A row of the table: the job of one file in one shape, with values for the variations that apply to the job.
struct PlannedVariant {
  Variant variant;
  std::vector<std::string> varied;  // The values of the variations, each as FIELD=VALUE.
  ExperimentVariant made;
};

// The shapes that --strategies, --workers and --servers request; without these flags, one shape that changes
// nothing.
absl::StatusOr<std::vector<StrategyShape>> ShapesByFlags(const Flags& flags) {
  if (!flags.Has("strategies")) {
    for (const char* flag : {"workers", "servers"}) {
      if (!flags.Has(flag)) continue;
      return absl::InvalidArgumentError(absl::StrCat("--", flag, " has an effect only with --strategies"));
    }
    return std::vector<StrategyShape>{{}};
  }
  TETHYS_ASSIGN_OR_RETURN(const StrategyShapes shapes,
                          ShapesOf(flags.Get("strategies"), flags.Get("workers"), flags.Get("servers")));
  for (const std::string& line : shapes.left_out) std::printf("left out: %s\n", line.c_str());
  return shapes.shapes;
}

// Loads the job of `variant` in `shape`. The values of variations that do not apply to this job become
// kNotVaried. Sets concerned[i] if variation i applies.
absl::StatusOr<PlannedVariant> PlanVariant(const Flags& flags, const std::vector<Variation>& variations,
                                           const StrategyShape& shape, Variant variant,
                                           std::vector<bool>& concerned) {
  PlannedVariant planned;
  const std::vector<std::string> all = VariantOverrides(variant, variations);
  planned.made.file = flags.arguments()[variant.job];
  planned.made.set = flags.GetAll("set");
  planned.made.set.insert(planned.made.set.end(), shape.overrides.begin(), shape.overrides.end());
  TETHYS_ASSIGN_OR_RETURN(JobVariant loaded, LoadJobVariant(planned.made.file, planned.made.set, all));
  for (size_t i = 0; i < variations.size(); ++i) {
    concerned[i] = concerned[i] || loaded.varied[i];
    if (loaded.varied[i]) {
      planned.made.varied.push_back(all[i]);
    } else {
      variant.values[i] = kNotVaried;
    }
  }
  if (const absl::Status fits = CheckFitsHosts(flags, loaded.job); !fits.ok()) return fits;
  TETHYS_RETURN_IF_ERROR(PriceByHosts(flags, loaded.job));
  std::string name = loaded.job.name();
  if (!shape.name.empty()) absl::StrAppend(&name, "-", shape.name);
  for (const std::string& change : planned.made.varied) absl::StrAppend(&name, "-", change);
  planned.made.name = FileNameText(name);
  planned.made.job = std::move(loaded.job);
  planned.variant = std::move(variant);
  return planned;
}

std::string FirstSentence(absl::string_view text) { return std::string(text.substr(0, text.find(". "))); }

// Lists the variants in the order of the tables. Leaves out the shapes of --strategies for which the host
// file has too few slots, and prints a line for each of them. FailedPrecondition: there are too few slots for
// every shape of a strategy. InvalidArgument: a job is wrong, or a variation applies to no job.
absl::StatusOr<std::vector<PlannedVariant>> PlanVariants(const Flags& flags,
                                                         const std::vector<Variation>& variations) {
  TETHYS_ASSIGN_OR_RETURN(const std::vector<StrategyShape> shapes, ShapesByFlags(flags));
  std::vector<PlannedVariant> planned;
  std::set<std::pair<std::pair<int, std::string>, std::vector<std::string>>> seen;
  std::vector<bool> concerned(variations.size(), false);
  std::set<std::string> left_out;                 // A line for each shape for which there are too few slots.
  std::map<std::string, absl::Status> too_large;  // The first error about too few slots, by strategy.
  std::set<std::string> fitting;                  // The strategies of planned shapes.
  const int jobs = static_cast<int>(flags.arguments().size());
  for (int job = 0; job < jobs; ++job) {
    for (const StrategyShape& shape : shapes) {
      for (Variant& variant : AllVariants(1, variations)) {
        variant.job = job;
        absl::StatusOr<PlannedVariant> next =
            PlanVariant(flags, variations, shape, std::move(variant), concerned);
        if (!shape.name.empty() && absl::IsFailedPrecondition(next.status())) {
          too_large.try_emplace(shape.strategy, next.status());
          left_out.insert(absl::StrCat(shape.name, ": ", FirstSentence(next.status().message())));
          continue;
        }
        TETHYS_RETURN_IF_ERROR(next.status());
        fitting.insert(shape.strategy);
        if (seen.insert({{job, shape.name}, next->variant.values}).second) {
          planned.push_back(*std::move(next));
        }
      }
    }
  }
  for (const auto& [strategy, error] : too_large) {
    if (fitting.count(strategy) == 0) return Annotate(error, absl::StrCat("--strategies: ", strategy));
  }
  for (const std::string& line : left_out) std::printf("left out: %s\n", line.c_str());
  for (size_t i = 0; i < variations.size(); ++i) {
    if (concerned[i]) continue;
    return absl::InvalidArgumentError(absl::StrCat("--vary=", variations[i].field,
                                                   ": none of these jobs has this field, which belongs to "
                                                   "another strategy or choice: add a job that has it"));
  }
  return planned;
}

absl::StatusOr<std::vector<Variation>> ParseVariations(const Flags& flags) {
  std::vector<Variation> variations;
  for (const std::string& text : flags.GetAll("vary")) {
    absl::StatusOr<Variation> variation = ParseVariation(text);
    if (!variation.ok()) return variation.status();
    variations.push_back(*std::move(variation));
  }
  return variations;
}

absl::StatusOr<Request> PrepareRuns(const Flags& flags, const CommandSpec& spec) {
  Request request;
  TETHYS_RETURN_IF_ERROR(ReadExperimentFlags(flags, request.experiment));
  TETHYS_ASSIGN_OR_RETURN(const std::vector<Variation> variations, ParseVariations(flags));
  std::copy_if(variations.begin(), variations.end(), std::back_inserter(request.variations), HasColumn);
  TETHYS_ASSIGN_OR_RETURN(request.target, GivenTarget(flags));
  // A confidence interval needs at least two runs. The interval of two runs is often narrow only because the
  // runs agree by chance; with three runs this is less frequent.
  const int64_t least = request.experiment.until > 0 ? 3 : 1;
  TETHYS_ASSIGN_OR_RETURN(const int64_t repeats, flags.GetInteger("repeats", least, 1, 1000));
  TETHYS_ASSIGN_OR_RETURN(const int64_t most, flags.GetInteger("most_repeats", 20, 2, 1000));
  request.experiment.most_repeats = static_cast<int>(most);
  request.experiment.schedule.repeats = static_cast<int>(repeats);
  request.experiment.schedule.random = repeats > 1;
  TETHYS_ASSIGN_OR_RETURN(std::vector<PlannedVariant> variants, PlanVariants(flags, variations));
  std::vector<proto::Job> jobs;
  for (PlannedVariant& variant : variants) {
    std::vector<std::string> values;
    for (size_t i = 0; i < variations.size(); ++i) {
      if (HasColumn(variations[i])) values.push_back(variant.variant.values[i]);
    }
    request.labels.push_back(LabelOf(variant.made.job, std::move(values)));
    jobs.push_back(variant.made.job);
    request.experiment.variants.push_back(std::move(variant.made));
  }
  std::vector<proto::JobDifference> differences = JobDifferences(jobs);
  for (proto::JobDifference& difference : NormalisationDifference(jobs)) {
    differences.push_back(std::move(difference));
  }
  request.differences = DifferencesText(differences, ShortNames(jobs));
  TETHYS_RETURN_IF_ERROR(PrepareExperiment(flags, spec, request.experiment));
  return request;
}

// Speed-up and efficiency of each variant; empty if all have the same number of workers.
std::string ScalingTable(const Request& request, const std::vector<RunRecord>& records, int width) {
  std::vector<ScalingInput> inputs;
  for (size_t i = 0; i < request.labels.size(); ++i) {
    const VariantLabel& label = request.labels[i];
    const proto::ReportVariant means = MeansOver(records, static_cast<int>(i), absl::nullopt);
    inputs.push_back({ParseStrategy(label.strategy), label.workers, means.samples_per_second().mean()});
  }
  int baseline = -1;
  const std::vector<Scaling> scaling = ScalingOf(inputs, baseline);
  if (baseline < 0) return "";
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool known = scaling[i].speed_up > 0;
    rows.push_back({VariantLetters(static_cast<int>(i)), request.experiment.variants[i].name,
                    request.labels[i].strategy, std::to_string(inputs[i].workers),
                    std::to_string(request.labels[i].servers),
                    known ? absl::StrFormat("%.2f", scaling[i].speed_up) : "-",
                    known ? absl::StrFormat("%.0f", scaling[i].efficiency * 100) : "-"});
  }
  return absl::StrCat(Table({{{""}, true},
                             {{"variant"}, true},
                             {{"strategy"}, true},
                             {{"workers"}},
                             {{"servers"}},
                             {{"speed-up"}},
                             {{"efficiency", "%"}}},
                            rows, width),
                      "Speed-up: samples per second divided by the samples per second of ",
                      VariantLetters(baseline), " (", request.experiment.variants[baseline].name,
                      "). Efficiency: speed-up divided by the ratio of the numbers of workers.\n");
}

// Writes the report and prints its verdict.
void ReportAndPrintVerdict(const Request& request, const std::string& directory, int width) {
  const absl::StatusOr<proto::Report> report = CollectReport(directory, request.target, ShortVersionText());
  const absl::Status written = report.ok() ? WriteReport(*report, directory) : report.status();
  if (report.ok()) {
    std::printf("Verdict\n\n");
    const auto print = [width](const std::string& text) {
      std::printf("%s", Wrap(text, "  ", width).c_str());
    };
    for (int i = 0; i < report->verdict_size(); ++i) {
      print(report->verdict(i));
      if (i > 0) continue;
      if (!report->how_sure().empty()) print(absl::StrCat("How sure: ", report->how_sure()));
      if (!report->reason().empty()) print(absl::StrCat("Why: ", report->reason()));
      if (report->caution_size() > 0)
        print(absl::StrCat("Keep in mind: ", absl::StrJoin(report->caution(), "; "), "."));
      if (const std::string legend = LegendText(*report); !legend.empty()) print(legend + ".");
    }
    std::printf("\n");
  }
  if (!written.ok()) std::printf("no report: %s\n", StatusText(written).c_str());
}

// Prints the tables and the verdict, writes comparison.csv, and returns the exit status. `again`: the command
// that resumes this comparison.
int Conclude(const Request& request, const ExperimentResults& results, const std::string& directory,
             const std::string& again) {
  const int width = TerminalColumns(STDOUT_FILENO);
  const std::vector<RunRecord> records = results.Counted();
  std::printf("%s\n", ComparisonTable(request.labels, request.variations, records, width).c_str());
  const std::string scaling = ScalingTable(request, records, width);
  if (!scaling.empty()) std::printf("%s\n", scaling.c_str());
  if (results.runs.size() > request.labels.size()) {
    std::printf("%s\n", RunsTable(request.experiment, results, width).c_str());
  }
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
  if (failed + results.missing == 0) return kExitSuccess;
  return Fail("compare",
              absl::AbortedError(absl::StrCat(failed, " of ", records.size() + results.missing,
                                              " runs did not succeed, ", results.missing,
                                              " were not started\ngo on with: ", again)),
              kExitFailed);
}

int Compare(const Flags& flags) {
  absl::StatusOr<Request> request = PrepareRuns(flags, CompareCommand().spec);
  if (!request.ok()) return Fail("compare", request.status(), kExitBadRequest);
  const std::string path = flags.Has("run_dir") ? flags.Get("run_dir") : FreshRunPath("compare");
  const absl::Status place = CheckExperimentPlace(flags, path, "comparison.csv");
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
  request->experiment.again = ResumeCommand("compare", flags, path);
  const ExperimentResults results = RunExperiment(request->experiment, path);
  return Conclude(*request, results, path, request->experiment.again);
}

}  // namespace

Command CompareCommand() {
  return {
      {.verb = "compare",
       .summary = "Trains several jobs and prints how they compare.",
       .description = kDescription,
       .argument = "JOB",
       .count = ArgumentCount::kAny,
       .flags = WithExperimentFlags(
           {{.name = "strategies",
             .value = "all|LIST",
             .help = "Trains each job with each of these strategies: local, mirrored, ps_sync, ps_async, "
                     "ps_stale (bound 3) or ps_stale_N, separated by commas. Impossible combinations with "
                     "--workers and --servers are left out, and a line names each of them."},
            {.name = "workers",
             .value = "N-M,...",
             .help = "With --strategies: trains with each of these numbers of workers. Default: the number "
                     "in the job."},
            {.name = "servers",
             .value = "N-M,...",
             .help = "With --strategies: trains with each of these numbers of servers. Default: the number "
                     "in the job."},
            {.name = "vary",
             .value = "FIELD=V1,V2,...",
             .help =
                 "Trains each job with each of these values; if --vary is repeated, with all combinations. "
                 "A field of a strategy (strategy.parameter_server.servers) varies the jobs of that strategy "
                 "only; strategy=mirrored,parameter_server varies the strategy itself.",
             .repeated = true},
            {.name = "repeats",
             .value = "N",
             .help = "The number of runs of each combination. Default 1, or 3 with --until."},
            {.name = "until",
             .value = "PERCENT",
             .help = "After --repeats, repeats each combination until the half-width of the 95 % confidence "
                     "interval of its mean training time is at most this percentage of the mean."},
            {.name = "most_repeats",
             .value = "N",
             .help = "With --until: the largest number of runs of a combination. Default 20."},
            TargetAccuracyFlag(),
            {.name = "run_dir",
             .value = "DIR",
             .help = "Directory for results. Default: a new runs/compare-DATE-TIME."},
            SetFlag("Replaces a field of every job.")}),
       .examples =
           {"tethys compare examples/fashion_mnist_mirrored.textproto "
            "examples/fashion_mnist_ps_async.textproto --vary=batch_size_per_worker=64,128 --repeats=3",
            "tethys compare examples/fashion_mnist_local.textproto --strategies=all --workers=1-4 "
            "--servers=1,2 --until=5%"}},
      Compare};
}

}  // namespace tethys
