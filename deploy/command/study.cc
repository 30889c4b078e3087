#include <unistd.h>

#include <cstdio>
#include <map>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "deploy/command/verbs.h"
#include "deploy/command/version.h"
#include "deploy/experiment/experiment_run.h"
#include "deploy/hosts/cluster_plan.h"
#include "deploy/launcher/progress_display.h"
#include "deploy/report/comparison.h"
#include "deploy/run/job_places.h"
#include "deploy/run/job_prediction.h"
#include "deploy/study/study_analysis.h"
#include "deploy/study/study_file.h"
#include "deploy/study/study_results.h"
#include "deploy/text.h"
#include "runtime/shape/job_shape.h"
#include "runtime/telemetry/csv_reader.h"
#include "workers/plan_job.h"

namespace tethys {
namespace {

constexpr char kDescription[] =
    "A study file (proto/study.proto) names factors, their levels, and the number of runs of each "
    "combination of levels. If the study repeats a published study, the file also has the published values "
    "and statements. \n\ntethys study plan FILE lists the combinations, and estimates from finished runs "
    "how long the remaining runs take. tethys study run FILE makes the runs and analyses them. Each run has "
    "a directory of its own. The runs are made in blocks: a block has one run of each combination, in "
    "random order. An interrupted study goes on with --resume. tethys study report FILE --run_dir=DIR "
    "repeats the analysis of the runs in DIR.\n\nThe analysis is in DIR/study.html, study.md, study.tex (a "
    "table for the package booktabs) and study.csv (a line per run). The exit status is the same as that of "
    "tethys compare.";

constexpr char kChanges[] = "changes.txt";  // The changes by --set, a line each.

constexpr int kTextWidth = 100;  // The width, in characters, of wrapped text if there is no terminal.

absl::StatusOr<std::map<std::string, std::string>> PlacesByFlags(const Flags& flags) {
  std::map<std::string, std::string> places;
  for (const std::string& text : flags.GetAll("place")) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
    if (parts.first.empty() || parts.second.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--place=", text, ": must be NAME=DIR, for example --place=mnist=/data/mnist"));
    }
    places[parts.first] = parts.second;
  }
  return places;
}

// The host file of a combination: the file that a level of the combination names, else the file of
// --hostfile, else the file of the study. Empty: there is no host file.
std::string HostfileOf(const Flags& flags, const LoadedStudy& study, const StudyCellJob& cell) {
  if (!cell.hostfile.empty()) return cell.hostfile;
  return flags.Has("hostfile") ? flags.Get("hostfile") : study.Resolve(study.study.hostfile());
}

// Sets the job's price to the sum of the prices of the hosts that the job would use. A host without a price
// in the host file has the study's price for its kind. Changes nothing if the job has a price already, or if
// the price of a host is not known.
absl::Status SetPrice(const LoadedStudy& study, const std::string& hostfile, proto::Job& job) {
  if (job.price_per_hour() > 0 || hostfile.empty() || study.study.price_size() == 0) return absl::OkStatus();
  TETHYS_ASSIGN_OR_RETURN(const ClusterPlan plan, PlanCluster(hostfile, job));
  double sum = 0;
  for (const int i : plan.UsedHosts()) {
    const HostEntry& host = plan.hosts[i];
    double price = host.price_per_hour.value_or(0);
    for (const proto::KindPrice& of : study.study.price()) {
      if (!host.price_per_hour.has_value() && of.kind() == host.kind) price = of.price_per_hour();
    }
    if (price <= 0) return absl::OkStatus();
    sum += price;
  }
  job.set_price_per_hour(sum);
  return absl::OkStatus();
}

absl::StatusOr<Experiment> ExperimentOf(const Flags& flags, LoadedStudy& study) {
  Experiment experiment;
  const proto::Study& file = study.study;
  experiment.schedule = {
      .repeats = file.repeats(), .random = file.order() == proto::RANDOM, .seed = file.seed()};
  if (file.max_others_cpu() > 0) experiment.most_others_cpu = file.max_others_cpu();
  experiment.until = file.until();
  if (file.most_repeats() > 0) experiment.most_repeats = file.most_repeats();
  TETHYS_RETURN_IF_ERROR(ReadExperimentFlags(flags, experiment));
  if (flags.Has("repeats")) {
    TETHYS_ASSIGN_OR_RETURN(const int64_t repeats, flags.GetInteger("repeats", 1, 1, 1000));
    experiment.schedule.repeats = static_cast<int>(repeats);
  }
  for (StudyCellJob& cell : study.cells) {
    const std::string hostfile = HostfileOf(flags, study, cell);
    TETHYS_RETURN_IF_ERROR(SetPrice(study, hostfile, cell.job));
    ExperimentVariant variant;
    variant.name = cell.directory;
    variant.job = cell.job;
    variant.file = cell.job_file;
    variant.set = cell.set;
    variant.hostfile = hostfile;
    experiment.variants.push_back(std::move(variant));
  }
  return experiment;
}

// Prints each statement of the study with its verdict and figures, and then the remarks.
void PrintReport(const proto::StudyReport& report, const std::string& directory) {
  const int columns = TerminalColumns(STDOUT_FILENO);
  const int width = columns > 0 ? columns : kTextWidth;
  for (const proto::ClaimResult& claim : report.claim()) {
    std::printf(
        "%s", Wrap(absl::StrCat(
                       claim.verdict(), ": ", claim.text(),
                       claim.figure().empty() ? "" : absl::StrCat(" Here ", claim.figure(), "."),
                       claim.published().empty() ? "" : absl::StrCat(" Published: ", claim.published(), ".")),
                   "  ", width)
                  .c_str());
  }
  for (const std::string& remark : report.remark()) std::printf("%s", Wrap(remark, "  ", width).c_str());
  std::printf("\nresults in %s/study.html, study.md, study.tex and study.csv\n", directory.c_str());
}

absl::Status Analyse(const LoadedStudy& study, const std::string& directory) {
  TETHYS_ASSIGN_OR_RETURN(const std::vector<StudyRun> runs, ReadStudyRuns(study, directory));
  const std::string made =
      absl::StrCat("Made on ", absl::FormatTime("%Y-%m-%d %H:%M UTC", absl::Now(), absl::UTCTimeZone()),
                   " by ", ShortVersionText());
  proto::StudyReport report = AnalyseStudy(study, runs, made);
  const std::string changes = ReadFile(absl::StrCat(directory, "/", kChanges)).value_or("");
  for (const absl::string_view change : absl::StrSplit(changes, '\n', absl::SkipEmpty())) {
    report.add_remark(
        absl::StrCat("All runs were made with --set=", change, ", which the study file does not set."));
  }
  TETHYS_RETURN_IF_ERROR(WriteStudy(study, runs, report, directory));
  PrintReport(report, directory);
  return absl::OkStatus();
}

// Seconds of the remaining runs, estimated from the finished runs in `directory`; nullopt: no run is
// finished.
absl::optional<double> SecondsToCome(const LoadedStudy& study, int repeats, const std::string& directory) {
  const std::string text = ReadFile(directory + "/runs.csv").value_or("");
  std::map<std::string, int> cells;
  for (size_t i = 0; i < study.cells.size(); ++i) cells[study.cells[i].directory] = static_cast<int>(i);
  std::vector<RunTime> made;
  std::vector<int> left(study.cells.size(), repeats), to_come;
  for (CsvReader csv(text); csv.Next();) {
    const auto cell = cells.find(std::string(csv.Text("variant")));
    if (cell == cells.end() || csv.Text("status") != "succeeded") continue;
    if (csv.Number("seconds") > 0) made.push_back({cell->second, csv.Number("seconds")});
    if (csv.Integer("put_aside") == 0) --left[cell->second];
  }
  for (size_t i = 0; i < left.size(); ++i) {
    for (int run = 0; run < left[i]; ++run) to_come.push_back(static_cast<int>(i));
  }
  return SecondsLeft(made, to_come);
}

// Seconds of all runs, predicted from the calibrations of their jobs; nullopt: a job has no calibration.
absl::optional<double> PredictedSecondsOf(const Flags& flags, Experiment experiment) {
  const absl::StatusOr<bool> tls = WantsTls(flags);
  std::vector<int> runs;
  for (size_t i = 0; i < experiment.variants.size(); ++i) {
    ExperimentVariant& variant = experiment.variants[i];
    const absl::StatusOr<proto::JobPlan> plan = PlanJob(variant.job);
    if (!plan.ok() || !tls.ok()) return absl::nullopt;
    variant.expectation =
        ExpectationOfRun(*plan, variant.hostfile, flags.Has("tls") ? *tls : !variant.hostfile.empty());
    if (!variant.expectation.has_value()) return absl::nullopt;
    runs.insert(runs.end(), experiment.schedule.repeats, static_cast<int>(i));
  }
  return PredictedSeconds(experiment, runs);
}

absl::Status PlanStudy(const Flags& flags, const std::string& path) {
  TETHYS_ASSIGN_OR_RETURN(const auto places, PlacesByFlags(flags));
  TETHYS_ASSIGN_OR_RETURN(LoadedStudy study, LoadStudy(path, places, flags.GetAll("set")));
  TETHYS_ASSIGN_OR_RETURN(const Experiment experiment, ExperimentOf(flags, study));
  std::vector<Column> columns;
  for (const proto::StudyFactor& factor : study.study.factor()) columns.push_back({{factor.name()}, true});
  for (const char* title : {"workers", "servers", "epochs"}) columns.push_back({{title}});
  columns.push_back({{"price per", "hour"}});
  std::vector<std::vector<std::string>> rows;
  for (const StudyCellJob& cell : study.cells) {
    std::vector<std::string> row;
    for (int f = 0; f < study.study.factor_size(); ++f) {
      row.push_back(study.study.factor(f).level(cell.level[f]).label());
    }
    const JobShape shape = ShapeOf(cell.job);
    for (const int64_t number :
         {int64_t{shape.workers}, int64_t{shape.servers}, int64_t{cell.job.epochs()}}) {
      row.push_back(std::to_string(number));
    }
    row.push_back(cell.job.price_per_hour() > 0 ? NumberCell(cell.job.price_per_hour()) : "-");
    rows.push_back(std::move(row));
  }
  const int repeats = experiment.schedule.repeats;
  std::printf("%s\n%s, %s each: %s%s\n", Table(columns, rows, TerminalColumns(STDOUT_FILENO)).c_str(),
              PluralText(static_cast<int64_t>(study.cells.size()), "combination").c_str(),
              PluralText(repeats, "run").c_str(),
              PluralText(static_cast<int64_t>(study.cells.size()) * repeats, "run").c_str(),
              study.excluded > 0
                  ? absl::StrCat("; ", PluralText(study.excluded, "combination"), " excluded").c_str()
                  : "");
  const absl::optional<double> left =
      flags.Has("run_dir") ? SecondsToCome(study, repeats, flags.Get("run_dir")) : absl::nullopt;
  const absl::optional<double> predicted =
      left.has_value() ? absl::nullopt : PredictedSecondsOf(flags, experiment);
  std::printf("%s\n",
              left.has_value()
                  ? absl::StrCat("about ", DurationText(*left), " left, estimated from finished runs").c_str()
              : predicted.has_value()
                  ? absl::StrCat("about ", DurationText(*predicted), ", predicted from calibrations").c_str()
                  : "the duration is not known: it can be estimated from finished runs (--run_dir=DIR), or "
                    "predicted if each job has been calibrated (tethys calibrate)");
  return absl::OkStatus();
}

int RunStudy(const Flags& flags, const std::string& path) {
  const auto places = PlacesByFlags(flags);
  if (!places.ok()) return Fail("study", places.status(), kExitBadRequest);
  absl::StatusOr<LoadedStudy> study = LoadStudy(path, *places, flags.GetAll("set"));
  if (!study.ok()) return Fail("study", study.status(), kExitBadRequest);
  absl::StatusOr<Experiment> experiment = ExperimentOf(flags, *study);
  absl::Status ready = experiment.status();
  const std::string directory =
      flags.Has("run_dir") ? flags.Get("run_dir") : FreshRunPath(study->study.name());
  if (ready.ok()) ready = CheckExperimentPlace(flags, directory, "runs.csv");
  if (ready.ok()) ready = PrepareExperiment(flags, StudyCommand().spec, *experiment);
  if (!ready.ok()) return Fail("study", ready, kExitBadRequest);
  const absl::StatusOr<RunDirectory> held = RunDirectory::Create(directory);
  if (!held.ok()) return Fail("study", held.status(), kExitBadRequest);
  const std::string changes = absl::StrJoin(flags.GetAll("set"), "\n");
  const absl::Status noted = WriteFileAtomically(absl::StrCat(directory, "/", kChanges), changes);
  if (!noted.ok()) return Fail("study", noted, kExitFailed);
  experiment->again = ResumeCommand("study", flags, directory);
  const ExperimentResults results = RunExperiment(*experiment, directory);
  std::printf("%s\n", RunsTable(*experiment, results, TerminalColumns(STDOUT_FILENO)).c_str());
  const absl::Status analysed = Analyse(*study, directory);
  if (!analysed.ok()) return Fail("study", analysed, kExitFailed);
  int failed = 0;
  for (const RunRecord& record : results.Counted()) failed += record.status.ok() ? 0 : 1;
  if (failed + results.missing == 0) return kExitSuccess;
  return Fail("study",
              absl::AbortedError(absl::StrCat(failed, " runs did not succeed, ", results.missing,
                                              " were not started\ngo on with: ", experiment->again)),
              kExitFailed);
}

int Study(const Flags& flags) {
  const std::vector<std::string>& words = flags.arguments();
  const bool known = words.size() == 2 && (words[0] == "run" || words[0] == "plan" || words[0] == "report");
  if (!known) {
    return Fail(
        "study",
        absl::InvalidArgumentError("write tethys study plan FILE, tethys study run FILE, or tethys study "
                                   "report FILE --run_dir=DIR"),
        kExitBadRequest);
  }
  if (words[0] == "run") return RunStudy(flags, words[1]);
  absl::Status status;
  if (words[0] == "plan") {
    status = PlanStudy(flags, words[1]);
  } else if (!flags.Has("run_dir")) {
    status = absl::InvalidArgumentError(
        "tethys study report needs --run_dir=DIR, the directory in which the study ran");
  } else {
    const absl::StatusOr<LoadedStudy> study = ReadStudy(words[1]);
    status = study.ok() ? Analyse(*study, flags.Get("run_dir")) : study.status();
  }
  return status.ok() ? kExitSuccess : Fail("study", status, kExitBadRequest);
}

}  // namespace

Command StudyCommand() {
  return {
      {.verb = "study",
       .summary = "Runs all combinations of the factors in a study file, repeatedly, and analyses the runs.",
       .description = kDescription,
       .argument = "run|plan|report FILE",
       .count = ArgumentCount::kWords,
       .flags = WithExperimentFlags(
           {{.name = "place",
             .value = "NAME=DIR",
             .help = "The folder to use for NAME, a name that the study file gives to a folder (a place { "
                     "name }), such as the folder of a data set.",
             .repeated = true},
            SetFlag("Replaces a field of every job, even a field that the study sets. The results of the "
                    "study name the change."),
            {.name = "repeats",
             .value = "N",
             .help = "The number of runs of each combination, in place of the number in FILE."},
            {.name = "until",
             .value = "PERCENT",
             .help = "Repeats each combination until the half-width of the 95 % confidence interval of its "
                     "mean training time is at most this percentage of the mean."},
            {.name = "run_dir",
             .value = "DIR",
             .help = "Directory for results. Default: a new runs/NAME-DATE-TIME."}}),
       .examples = {"tethys study plan examples/studies/005_data_parallel.textproto",
                    "tethys study run examples/studies/005_data_parallel.textproto --run_dir=runs/study5"}},
      Study};
}

}  // namespace tethys
