// The flags of an experiment, and its runs as text.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "deploy/experiment/experiment_run.h"
#include "deploy/process/remote_shell.h"
#include "deploy/report/comparison.h"
#include "deploy/report/others_cpu.h"
#include "deploy/report/report_value.h"
#include "deploy/run/job_places.h"
#include "deploy/run/role_process.h"
#include "deploy/text.h"

namespace tethys {
namespace {

std::string OthersText(const MadeRun& run) {
  const absl::optional<double> others =
      run.record.status.ok() ? OthersCpuOf(run.record.summary) : absl::nullopt;
  return others.has_value() ? absl::StrFormat("%.0f", *others * 100) : "-";
}

}  // namespace

std::string RunsCsv(const Experiment& experiment, const ExperimentResults& results) {
  std::string csv = CsvLine({"order", "block", "variant", "seed", "start", "seconds", "status", "others_cpu",
                             "put_aside", "run_dir"});
  for (const MadeRun& run : results.runs) {
    const RunRecord& record = run.record;
    const absl::optional<double> others = OthersCpuOf(record.summary);
    absl::StrAppend(&csv, CsvLine({absl::StrCat(run.order), absl::StrCat(record.repeat),
                                   experiment.variants[record.variant].name, absl::StrCat(record.seed),
                                   absl::StrFormat("%.1f", run.start), absl::StrFormat("%.2f", run.seconds),
                                   record.status.ok() ? "succeeded" : "failed",
                                   others.has_value() ? NumberCell(*others) : "", run.put_aside ? "1" : "0",
                                   record.run_dir.substr(record.run_dir.rfind('/') + 1)}));
  }
  return csv;
}

std::string RunsTable(const Experiment& experiment, const ExperimentResults& results, int width) {
  std::vector<std::vector<std::string>> rows;
  bool aside = false;
  for (const MadeRun& run : results.runs) {
    const RunRecord& record = run.record;
    aside = aside || run.put_aside;
    rows.push_back(
        {absl::StrCat(experiment.variants[record.variant].name, "-r", record.repeat), absl::StrCat(run.order),
         record.status.ok() ? absl::StrFormat("%.2f", record.summary.timing().training_seconds()) : "-",
         OthersText(run),
         !record.status.ok() ? "failed"
         : run.put_aside     ? "put aside"
                             : ""});
  }
  const std::vector<Column> columns = {
      {{"run"}, true}, {{"order"}}, {{"training", "s"}}, {{"others'", "CPU, %"}}, {{""}, true}};
  return absl::StrCat(Table(columns, rows, width),
                      aside ? "Put aside: a run that other programs disturbed more than its repetition; such "
                              "a run does not count in the means.\n"
                            : "");
}

std::string StandingText(const Experiment& experiment, const ExperimentResults& results) {
  const std::vector<RunRecord> records = results.Counted();
  std::vector<std::pair<double, std::string>> times;
  for (size_t i = 0; i < experiment.variants.size(); ++i) {
    const proto::ReportVariant means = MeansOver(records, static_cast<int>(i), absl::nullopt);
    if (means.seconds().count() == 0) continue;
    times.emplace_back(means.seconds().mean(),
                       absl::StrCat(experiment.variants[i].name, " ", SecondsText(means.seconds())));
  }
  if (times.empty()) return "";
  std::sort(times.begin(), times.end());
  constexpr size_t kListed = 8;
  const size_t more = times.size() - std::min(times.size(), kListed);
  times.resize(times.size() - more);
  std::vector<std::string> texts;
  for (const auto& [seconds, text] : times) texts.push_back(text);
  if (more > 0) texts.push_back(absl::StrCat(more, " more"));
  return absl::StrCat("training times so far, whose differences may still be chance: ",
                      absl::StrJoin(texts, ", "));
}

std::vector<FlagSpec> WithExperimentFlags(std::vector<FlagSpec> flags) {
  flags.push_back({.name = "max_others_cpu",
                   .value = "PERCENT",
                   .help = "A run during which other programs used more than this percentage of the CPU is "
                           "made once more at the end of its block; both runs are kept, and the less "
                           "disturbed run counts. Default 20; with 100, no run is repeated."});
  flags.push_back({.name = "resume",
                   .help =
                       "Continues the command whose directory is --run_dir: an interrupted one with the same "
                       "arguments as before, or a complete one with more --repeats. Runs that succeeded are "
                       "kept if build and job are the same; all other runs are made."});
  flags.push_back(CudaLibraryPathFlag());
  return WithDisplayFlags(WithClusterFlags(std::move(flags)));
}

absl::Status ReadExperimentFlags(const Flags& flags, Experiment& experiment) {
  ReadDisplayFlags(flags, experiment.options);
  experiment.options.cuda_library_path = flags.GetAll("cuda_library_path");
  experiment.resume = flags.Has("resume");
  experiment.ssh_config = flags.Get("ssh_config");
  TETHYS_ASSIGN_OR_RETURN(experiment.most_others_cpu,
                          flags.GetPercent("max_others_cpu", experiment.most_others_cpu));
  TETHYS_ASSIGN_OR_RETURN(experiment.until, flags.GetPercent("until", experiment.until));
  return absl::OkStatus();
}

absl::Status CheckExperimentPlace(const Flags& flags, const std::string& path, const std::string& result) {
  if (flags.Has("resume")) {
    if (!flags.Has("run_dir")) {
      return absl::InvalidArgumentError(
          "--resume needs --run_dir=DIR, the directory of the interrupted command");
    }
    if (FileExists(path)) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat(path, " does not exist: there is nothing to resume"));
  }
  if (!FileExists(absl::StrCat(path, "/", result))) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path, " already contains results (", result,
                   "): go on with these results by --resume, or name another directory by --run_dir"));
}

std::string ResumeCommand(const std::string& verb, const Flags& flags, const std::string& path) {
  std::string command = absl::StrCat("tethys ", verb);
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

}  // namespace tethys
