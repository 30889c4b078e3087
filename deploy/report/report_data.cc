#include "deploy/report/report_data.h"

#include <algorithm>
#include <ctime>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/report/cautions.h"
#include "deploy/report/comparison.h"
#include "deploy/report/explanation.h"
#include "deploy/report/findings.h"
#include "deploy/report/headline.h"
#include "deploy/report/job_differences.h"
#include "deploy/report/loss_text.h"
#include "deploy/report/medium.h"
#include "deploy/report/normalisation.h"
#include "deploy/report/prediction_sentence.h"
#include "deploy/report/ranking.h"
#include "deploy/report/reason.h"
#include "deploy/report/report_series.h"
#include "deploy/report/report_value.h"
#include "deploy/report/setup_text.h"
#include "deploy/report/time_to_accuracy.h"
#include "deploy/report/variant_name.h"
#include "deploy/report/variant_order.h"
#include "deploy/report/variant_strategy.h"
#include "deploy/report/verdict.h"
#include "deploy/shape_words.h"
#include "runtime/base/file.h"
#include "runtime/job/job_file.h"
#include "runtime/telemetry/summary.h"

namespace tethys {
namespace {

// Larger files are left out with a note, so that a browser can show the report.
constexpr int64_t kMaxFileBytes = int64_t{256} << 20;

struct Run {
  std::string path;
  std::string variant;  // The name of the variant, equal for all its runs.
  RunRecord record;
  absl::optional<proto::Job> job;  // The job stored in the run directory; nullopt: it cannot be read.
};

absl::optional<proto::Job> JobIn(const std::string& path) {
  absl::StatusOr<proto::Job> job = ReadRunJob(path + "/job.textproto");
  if (!job.ok()) return absl::nullopt;
  return *std::move(job);
}

// True if another run replaces the run in the directory `name`. A directory "NAME-r3.old-1" has a run that a
// resumed comparison repeated; "NAME-r3.aside" has a run that other programs disturbed.
bool IsPutAside(const std::string& name) {
  if (absl::EndsWith(name, ".aside")) return true;
  const size_t mark = name.rfind(".old-");
  uint32_t number = 0;
  return mark != std::string::npos && absl::SimpleAtoi(name.substr(mark + 5), &number);
}

RunRecord RecordOf(const std::string& path, proto::RunSummary summary) {
  RunRecord record;
  record.run_dir = path;
  record.epochs = ParseEpochs(ReadFile(path + "/epochs.csv", kMaxFileBytes).value_or(""));
  if (summary.status() != "succeeded") record.status = absl::AbortedError(summary.status());
  record.summary = std::move(summary);
  return record;
}

void AddRun(const std::string& path, const std::string& variant, proto::RunSummary summary,
            std::vector<Run>& runs) {
  Run& run = runs.emplace_back(Run{path, variant, RecordOf(path, std::move(summary)), JobIn(path)});
  if (run.job.has_value()) run.record.seed = run.job->seed();
}

absl::StatusOr<std::vector<Run>> FindRuns(const std::string& path) {
  std::vector<Run> runs;
  if (FileExists(path + "/" + kSummaryFile)) {
    TETHYS_ASSIGN_OR_RETURN(proto::RunSummary summary, ReadSummary(path));
    const std::string name = summary.job();
    AddRun(path, name, std::move(summary), runs);
    return runs;
  }
  TETHYS_ASSIGN_OR_RETURN(std::vector<std::string> names, ListDirectory(path));
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const std::string folder = absl::StrCat(path, "/", name);
    if (IsPutAside(name) || !FileExists(absl::StrCat(folder, "/", kSummaryFile))) continue;
    TETHYS_ASSIGN_OR_RETURN(proto::RunSummary summary, ReadSummary(folder));
    AddRun(folder, VariantOfRun(name), std::move(summary), runs);
  }
  if (!runs.empty()) return runs;
  return absl::NotFoundError(absl::StrCat("no run has ended in ", path,
                                          ": neither this directory nor a directory in it contains ",
                                          kSummaryFile));
}

std::string ReadOrNote(const Run& run, const std::string& file, proto::Report& report) {
  absl::StatusOr<std::string> text = ReadFile(absl::StrCat(run.path, "/", file), kMaxFileBytes);
  if (text.ok()) return *std::move(text);
  report.add_missing(absl::StrCat(run.variant, ": ", text.status().message()));
  return "";
}

// True if all attempts that made updates had the same strategy, processes and batch as the last attempt.
bool OneShape(const proto::RunSummary& summary) {
  const auto shape_of = [](const auto& run) {
    return JobShape{ParseStrategy(run.strategy()), run.workers(), run.servers()};
  };
  return std::all_of(summary.attempt().begin(), summary.attempt().end(), [&](const proto::Attempt& attempt) {
    return attempt.end_step() == attempt.first_step() ||
           (shape_of(attempt) == shape_of(summary) && attempt.global_batch_size() == summary.global_batch());
  });
}

// The name of a variant: "mirrored, 9 workers, global batch 1152". If earlier attempts of the run had another
// strategy, other processes or another batch, the name also says from which update on it is valid.
std::string NameOf(const proto::RunSummary& summary) {
  std::string name = summary.strategy();
  std::replace(name.begin(), name.end(), '_', ' ');
  absl::StrAppend(&name, ", ", summary.workers(), summary.workers() == 1 ? " worker" : " workers");
  if (summary.servers() > 0) {
    absl::StrAppend(&name, ", ", summary.servers(), summary.servers() == 1 ? " server" : " servers");
  }
  absl::StrAppend(&name, ", global batch ", summary.global_batch());
  // Updates of earlier attempts with another shape must not be credited to the last shape.
  if (!OneShape(summary)) {
    absl::StrAppend(&name, ", from update ", std::prev(summary.attempt().end())->first_step(), " on");
  }
  return name;
}

// The run to show in detail: the successful run with the median training time or, if no run succeeded, the
// run with the most epochs.
const Run& ShownRun(const std::vector<const Run*>& runs) {
  std::vector<const Run*> succeeded;
  std::copy_if(runs.begin(), runs.end(), std::back_inserter(succeeded),
               [](const Run* run) { return run->record.status.ok(); });
  if (succeeded.empty()) {
    return **std::max_element(runs.begin(), runs.end(), [](const Run* a, const Run* b) {
      return a->record.epochs.size() < b->record.epochs.size();
    });
  }
  std::stable_sort(succeeded.begin(), succeeded.end(), [](const Run* a, const Run* b) {
    return a->record.summary.timing().training_seconds() < b->record.summary.timing().training_seconds();
  });
  return *succeeded[(succeeded.size() - 1) / 2];
}

std::string DirectoryName(const Run& run) { return run.path.substr(run.path.rfind('/') + 1); }

void AddRunPoint(const Run& run, const Target& target, proto::ReportVariant& variant) {
  const proto::RunSummary& summary = run.record.summary;
  proto::RunPoint& point = *variant.add_run();
  point.set_name(DirectoryName(run));
  point.set_status(summary.status());
  point.set_seconds(summary.timing().training_seconds());
  if (summary.test().has_accuracy()) point.set_test_accuracy(summary.test().accuracy());
  point.set_exchange(ExchangeOf(summary));
  point.set_losses(DisturbanceText(summary));
  if (!target.has_value()) return;
  const absl::optional<Reached> reached = FirstAtOrAbove(target->accuracy(), run.record.epochs);
  if (reached.has_value()) point.set_seconds_to_target(reached->seconds);
}

void AddVariant(const std::vector<const Run*>& runs, const Target& target, proto::Report& report) {
  std::vector<RunRecord> records;
  for (const Run* run : runs) records.push_back(run->record);
  const proto::RunSummary& first = records[0].summary;
  proto::ReportVariant& variant = *report.add_variant();
  variant = MeansOver(records, 0, target);
  variant.set_name(NameOf(first));
  variant.set_strategy(first.strategy());
  variant.set_exchanges(TraitsOf(variant).exchanges);
  variant.set_workers(first.workers());
  variant.set_servers(first.servers());
  variant.set_global_batch(first.global_batch());
  for (const Run* run : runs) AddRunPoint(*run, target, variant);
  const Run& shown = ShownRun(runs);
  variant.set_shown_run(DirectoryName(shown));
  const proto::RunSummary& summary = shown.record.summary;
  variant.set_batch_per_worker(static_cast<int32_t>(summary.global_batch() / std::max(1, summary.workers())));
  *variant.mutable_summary() = summary;
  variant.set_through(MediumOf(summary));
  for (const proto::EpochPoint& epoch : shown.record.epochs) *variant.add_epoch() = epoch;
  if (shown.record.epochs.empty()) ReadOrNote(shown, "epochs.csv", report);
  const std::string resources = ReadOrNote(shown, "resources.csv", report);
  AddMachines(resources, variant);
  AddGpus(resources, variant);
  AddRanks(ReadOrNote(shown, "steps.csv", report), variant);
}

// The job of each variant's first run, in the order of `variants`; empty if one of them cannot be read.
std::vector<proto::Job> JobsOf(const std::vector<Run>& runs, const std::vector<std::string>& variants) {
  std::vector<proto::Job> jobs;
  for (const std::string& variant : variants) {
    const auto run =
        std::find_if(runs.begin(), runs.end(), [&](const Run& run) { return run.variant == variant; });
    if (!run->job.has_value()) return {};
    jobs.push_back(*run->job);
  }
  return jobs;
}

// Adds the names, chance accuracies and differences, which depend on all jobs together.
void AddJobs(const std::vector<proto::Job>& jobs, proto::Report& report) {
  const std::vector<std::string> short_names = ShortNames(jobs);
  for (size_t i = 0; i < jobs.size(); ++i) {
    proto::ReportVariant& variant = *report.mutable_variant(static_cast<int>(i));
    variant.set_short_name(short_names[i]);
    variant.set_normalised_samples(NormalisedSamples(jobs[i]));
    if (jobs[i].data().classes() > 0) variant.set_chance_accuracy(1.0 / jobs[i].data().classes());
  }
  for (proto::JobDifference& difference : JobDifferences(jobs)) {
    *report.add_difference() = std::move(difference);
  }
  for (proto::JobDifference& difference : NormalisationDifference(jobs)) {
    *report.add_difference() = std::move(difference);
  }
}

using NameField = std::string* (proto::ReportVariant::*)();

// Appends the directory to names that several variants share.
void MakeUnique(const std::vector<std::string>& directories, NameField field, proto::Report& report) {
  std::map<std::string, int> uses;
  for (proto::ReportVariant& variant : *report.mutable_variant()) ++uses[*(variant.*field)()];
  for (int i = 0; i < report.variant_size(); ++i) {
    std::string& name = *(report.mutable_variant(i)->*field)();
    if (!name.empty() && uses[name] > 1) absl::StrAppend(&name, " (", directories[i], ")");
  }
}

// FailedPrecondition: the jobs have different models or data, so their runs cannot be compared.
absl::Status CheckAlike(const std::string& path, const std::vector<proto::Job>& jobs) {
  std::vector<std::string> fields;
  for (const proto::JobDifference& difference : JobDifferences(jobs)) {
    const std::string& field = difference.field();
    if (absl::StartsWith(field, "model") || absl::StartsWith(field, "data")) fields.push_back(field);
  }
  if (fields.empty()) return absl::OkStatus();
  constexpr size_t kNamed = 3;
  const size_t more = fields.size() - std::min(fields.size(), kNamed);
  fields.resize(fields.size() - more);
  return absl::FailedPreconditionError(absl::StrCat(
      path, " contains runs of different models or data (their jobs differ in ", absl::StrJoin(fields, ", "),
      more > 0 ? absl::StrCat(" and ", more, " more") : "",
      "), and no single `tethys compare` made them: name the directory of one run or of one comparison"));
}

// The sentences on the setup that hold for all runs.
std::vector<std::string> SetupSentences(const std::vector<Run>& runs) {
  std::vector<std::string> common;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].job.has_value()) return {};
    const std::vector<std::string> own = DescribeSetup(*runs[i].job, runs[i].record.summary);
    if (i == 0) common = own;
    common.erase(std::remove_if(common.begin(), common.end(),
                                [&own](const std::string& sentence) {
                                  return std::find(own.begin(), own.end(), sentence) == own.end();
                                }),
                 common.end());
  }
  return common;
}

std::string Today() {
  const time_t now = time(nullptr);
  tm utc;
  gmtime_r(&now, &utc);
  return absl::StrFormat("%04d-%02d-%02d %02d:%02d UTC", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                         utc.tm_hour, utc.tm_min);
}

}  // namespace

absl::StatusOr<proto::Report> CollectReport(const std::string& path, absl::optional<double> given_target,
                                            const std::string& program) {
  TETHYS_ASSIGN_OR_RETURN(const std::vector<Run> runs, FindRuns(path));
  std::map<std::string, std::vector<const Run*>> variants;
  std::vector<std::string> directories;
  for (const Run& run : runs) {
    if (variants[run.variant].empty()) directories.push_back(run.variant);
    variants[run.variant].push_back(&run);
  }
  const std::vector<int> positions =
      PutInOrder(ReadFile(path + "/comparison.csv", kMaxFileBytes).value_or(""), directories);
  const std::vector<proto::Job> jobs = JobsOf(runs, directories);
  const bool compared = FileExists(path + "/comparison.csv");
  if (!compared) TETHYS_RETURN_IF_ERROR(CheckAlike(path, jobs));
  proto::Report report;
  std::vector<RunRecord> records;
  for (const Run& run : runs) records.push_back(run.record);
  const Target target = TargetOf(records, given_target);
  if (target.has_value()) *report.mutable_target() = *target;
  if (!target.has_value() && given_target.has_value()) {
    report.add_missing(
        "Time to accuracy: no run was validated (data.validation_samples, evaluate_each_epoch).");
  }
  std::vector<JobStrategy> strategies;
  for (const std::string& directory : directories) {
    AddVariant(variants[directory], target, report);
    strategies.push_back(StrategyOf(*report.variant().rbegin()));
  }
  for (std::string& note : StrategyNotes(strategies)) report.add_strategy_note(std::move(note));
  AddJobs(jobs, report);
  MakeUnique(directories, &proto::ReportVariant::mutable_name, report);
  MakeUnique(directories, &proto::ReportVariant::mutable_short_name, report);
  if (directories.size() == 1) report.mutable_variant(0)->set_short_name("this job");
  for (size_t i = 0; i < positions.size() && positions.size() > 1; ++i) {
    report.mutable_variant(static_cast<int>(i))->set_label(VariantLetters(positions[i]));
  }
  const Findings findings = FindingsOf(report);
  if (findings.base != nullptr) {
    const proto::ReportValue time = RankedTime(report, *findings.base);
    for (proto::ReportVariant& variant : *report.mutable_variant()) {
      variant.set_shown_apart(IsShown(time, RankedTime(report, variant)));
    }
  }
  if (findings.choice != nullptr) {
    report.set_choice(findings.choice->label());
    for (const proto::ReportVariant* variant : findings.tied) report.add_tied(variant->label());
  }
  for (std::string& caution : Cautions(report, findings)) report.add_caution(std::move(caution));
  for (std::string& sentence : SetupSentences(runs)) report.add_setup(std::move(sentence));
  report.set_title(runs.size() == 1 ? runs[0].record.summary.job()
                                    : absl::StrCat(compared ? "Comparison of " : "Runs not made together: ",
                                                   directories.size(), " variants, ", runs.size(), " runs"));
  report.set_made(absl::StrCat("Made on ", Today(), program.empty() ? "" : " by ", program));
  for (std::string& sentence : Verdict(report, findings)) report.add_verdict(std::move(sentence));
  if (findings.by_speed.size() > 1) {
    report.set_how_sure(HeadlineOf(report, findings).how_sure);
    report.set_reason(Reason(report, findings));
  }
  for (std::string& sentence : Explanation(findings)) report.add_why(std::move(sentence));
  if (std::string sentence = PredictionSentence(report); !sentence.empty()) {
    report.add_why(std::move(sentence));
  }
  return report;
}

}  // namespace tethys
