#include "deploy/report_data.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/comparison.h"
#include "deploy/csv_reader.h"
#include "deploy/setup_text.h"
#include "deploy/verdict.h"
#include "runtime/base/build_id.h"
#include "runtime/base/file.h"
#include "runtime/telemetry/summary.h"

namespace tethys {
namespace {

// A report is looked at in a browser: what is longer is thinned out, or left out with a word.
constexpr int64_t kMaxFileBytes = int64_t{256} << 20;
constexpr size_t kMaxPoints = 240;

struct Run {
  std::string path;
  std::string variant;  // Runs of one variant share it.
  proto::RunSummary summary;
};

// "NAME" of "NAME-r3"; the whole where there is no such end.
std::string WithoutRepeat(const std::string& name) {
  const size_t dash = name.rfind("-r");
  uint32_t repeat = 0;
  const bool numbered = dash != std::string::npos && absl::SimpleAtoi(name.substr(dash + 2), &repeat);
  return numbered ? name.substr(0, dash) : name;
}

absl::StatusOr<std::vector<Run>> FindRuns(const std::string& path) {
  std::vector<Run> runs;
  if (FileExists(path + "/" + kSummaryFile)) {
    TETHYS_ASSIGN_OR_RETURN(proto::RunSummary summary, ReadSummary(path));
    const std::string name = summary.job();
    runs.push_back({path, name, std::move(summary)});
    return runs;
  }
  TETHYS_ASSIGN_OR_RETURN(std::vector<std::string> names, ListDirectory(path));
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const std::string folder = absl::StrCat(path, "/", name);
    if (!FileExists(absl::StrCat(folder, "/", kSummaryFile))) continue;
    TETHYS_ASSIGN_OR_RETURN(proto::RunSummary summary, ReadSummary(folder));
    runs.push_back({folder, WithoutRepeat(name), std::move(summary)});
  }
  if (!runs.empty()) return runs;
  return absl::NotFoundError(absl::StrCat("no run has ended in ", path, ": it holds no ", kSummaryFile,
                                          ", and no directory in it does"));
}

std::string ReadOrNote(const Run& run, const std::string& file, proto::Report& report) {
  absl::StatusOr<std::string> text = ReadFile(absl::StrCat(run.path, "/", file), kMaxFileBytes);
  if (text.ok()) return *std::move(text);
  report.add_missing(absl::StrCat(run.variant, ": ", text.status().message()));
  return "";
}

// Of two lines of one epoch, as a resumed run leaves them, the later one counts.
void AddEpochs(absl::string_view text, proto::ReportVariant& variant) {
  struct Epoch {
    proto::EpochPoint point;
    double seconds = 0;
  };
  std::map<int64_t, Epoch> epochs;
  for (CsvReader csv(text); csv.Next();) {
    Epoch& epoch = epochs[static_cast<int64_t>(csv.Number("epoch"))];
    epoch = {};
    epoch.seconds = csv.Number("train_seconds") + csv.Number("barrier_seconds");
    epoch.point.set_train_loss(csv.Number("train_loss"));
    epoch.point.set_train_accuracy(csv.Number("train_accuracy"));
    if (csv.Text("validation_loss").empty()) continue;
    epoch.point.set_validation_loss(csv.Number("validation_loss"));
    epoch.point.set_validation_accuracy(csv.Number("validation_accuracy"));
  }
  double seconds = 0;
  for (auto& [number, epoch] : epochs) {
    seconds += epoch.seconds;
    epoch.point.set_seconds(seconds);
    *variant.add_epoch() = epoch.point;
  }
}

void AddMachines(absl::string_view text, proto::ReportVariant& variant) {
  std::map<std::string, std::vector<std::array<double, 4>>> machines;
  for (CsvReader csv(text); csv.Next();) {
    if (!csv.Text("process").empty()) continue;  // A process; the machine has a line of its own.
    machines[std::string(csv.Text("host"))].push_back(
        {csv.Number("seconds"), csv.Number("cpu_percent"), csv.Number("resident_bytes") / (1 << 20),
         (csv.Number("network_in_bytes") + csv.Number("network_out_bytes")) / 1e6});
  }
  for (const auto& [host, samples] : machines) {
    proto::MachineSeries& series = *variant.add_machine();
    series.set_host(host);
    const size_t stride = (samples.size() + kMaxPoints - 1) / kMaxPoints;
    for (size_t i = 0; i < samples.size(); i += stride) {
      const double interval = i > 0 ? samples[i][0] - samples[i - 1][0] : samples[i][0];
      series.add_seconds(samples[i][0]);
      series.add_cpu_percent(samples[i][1]);
      series.add_resident_mib(samples[i][2]);
      series.add_network_mb_per_second(interval > 0 ? samples[i][3] / interval : 0);
    }
  }
}

// Of processes that have a GPU which tells how busy it is.
void AddGpus(absl::string_view text, proto::ReportVariant& variant) {
  std::map<std::string, std::vector<std::array<double, 3>>> gpus;
  for (CsvReader csv(text); csv.Next();) {
    if (csv.Text("gpu_percent").empty()) continue;
    gpus[absl::StrCat(csv.Text("process"), " on ", csv.Text("host"))].push_back(
        {csv.Number("seconds"), csv.Number("gpu_percent"), csv.Number("gpu_power_watts")});
  }
  for (const auto& [process, samples] : gpus) {
    proto::GpuSeries& series = *variant.add_gpu();
    series.set_process(process);
    const size_t stride = (samples.size() + kMaxPoints - 1) / kMaxPoints;
    for (size_t i = 0; i < samples.size(); i += stride) {
      series.add_seconds(samples[i][0]);
      series.add_percent(samples[i][1]);
      series.add_power_watts(samples[i][2]);
    }
  }
}

void AddRanks(absl::string_view text, proto::ReportVariant& variant) {
  struct Sum {
    double compute_ns = 0;
    double exchange_ns = 0;
    int64_t steps = 0;
  };
  std::map<int, Sum> ranks;
  for (CsvReader csv(text); csv.Next();) {
    Sum& sum = ranks[static_cast<int>(csv.Number("rank"))];
    sum.compute_ns += csv.Number("data_ns") + csv.Number("forward_ns") + csv.Number("backward_ns");
    sum.exchange_ns += csv.Number("exchange_ns");
    ++sum.steps;
  }
  for (const auto& [rank, sum] : ranks) {
    proto::RankTime& time = *variant.add_rank();
    time.set_rank(rank);
    time.set_compute_us(sum.compute_ns / 1e3 / static_cast<double>(sum.steps));
    time.set_exchange_us(sum.exchange_ns / 1e3 / static_cast<double>(sum.steps));
    for (const proto::TaskSummary& task : variant.summary().task()) {
      if (task.role() == "worker" && task.index() == rank) time.set_host(task.host());
    }
  }
}

void SetValue(const Spread& spread, proto::ReportValue& value) {
  value.set_count(spread.count);
  value.set_mean(spread.mean);
  value.set_deviation(spread.deviation);
}

// "mirrored, 9 workers, batch 1152".
std::string NameOf(const proto::RunSummary& summary) {
  std::string name = summary.strategy();
  std::replace(name.begin(), name.end(), '_', ' ');
  absl::StrAppend(&name, ", ", summary.workers(), summary.workers() == 1 ? " worker" : " workers");
  if (summary.servers() > 0) {
    absl::StrAppend(&name, ", ", summary.servers(), summary.servers() == 1 ? " server" : " servers");
  }
  return absl::StrCat(name, ", global batch ", summary.global_batch());
}

// The one to show in detail: of median training time among those that succeeded; null if none did.
const Run* MedianRun(const std::vector<const Run*>& runs) {
  std::vector<const Run*> succeeded;
  std::copy_if(runs.begin(), runs.end(), std::back_inserter(succeeded),
               [](const Run* run) { return run->summary.status() == "succeeded"; });
  if (succeeded.empty()) return nullptr;
  std::stable_sort(succeeded.begin(), succeeded.end(), [](const Run* a, const Run* b) {
    return a->summary.timing().training_seconds() < b->summary.timing().training_seconds();
  });
  return succeeded[(succeeded.size() - 1) / 2];
}

std::string DirectoryName(const Run& run) { return run.path.substr(run.path.rfind('/') + 1); }

void AddRunPoint(const Run& run, proto::ReportVariant& variant) {
  proto::RunPoint& point = *variant.add_run();
  point.set_name(DirectoryName(run));
  point.set_status(run.summary.status());
  point.set_seconds(run.summary.timing().training_seconds());
  if (run.summary.has_test()) point.set_test_accuracy(run.summary.test().accuracy());
}

void AddVariant(const std::vector<const Run*>& runs, proto::Report& report) {
  std::vector<RunRecord> records;
  for (const Run* run : runs) {
    RunRecord record;
    record.summary = run->summary;
    if (run->summary.status() != "succeeded") record.status = absl::AbortedError(run->summary.status());
    records.push_back(std::move(record));
  }
  const Aggregate aggregate = AggregateRuns(records, 0);
  proto::ReportVariant& variant = *report.add_variant();
  variant.set_name(NameOf(runs[0]->summary));
  variant.set_strategy(runs[0]->summary.strategy());
  variant.set_workers(runs[0]->summary.workers());
  variant.set_servers(runs[0]->summary.servers());
  variant.set_global_batch(runs[0]->summary.global_batch());
  variant.set_runs(aggregate.runs - aggregate.failed);
  variant.set_failed(aggregate.failed);
  SetValue(aggregate.seconds, *variant.mutable_seconds());
  SetValue(aggregate.accuracy, *variant.mutable_test_accuracy());
  SetValue(aggregate.samples_per_second, *variant.mutable_samples_per_second());
  SetValue(aggregate.exposed_share, *variant.mutable_exposed_share());
  SetValue(aggregate.bytes_per_step, *variant.mutable_bytes_per_step());
  SetValue(aggregate.run_cost, *variant.mutable_cost());
  SetValue(aggregate.epoch_cost, *variant.mutable_epoch_cost());
  for (const Run* run : runs) AddRunPoint(*run, variant);
  const Run* shown = MedianRun(runs);
  if (shown == nullptr) return;
  variant.set_shown_run(DirectoryName(*shown));
  variant.set_batch_per_worker(
      static_cast<int32_t>(shown->summary.global_batch() / std::max(1, shown->summary.workers())));
  *variant.mutable_summary() = shown->summary;
  AddEpochs(ReadOrNote(*shown, "epochs.csv", report), variant);
  const std::string resources = ReadOrNote(*shown, "resources.csv", report);
  AddMachines(resources, variant);
  AddGpus(resources, variant);
  AddRanks(ReadOrNote(*shown, "steps.csv", report), variant);
}

// Variants that look alike are told apart by what their directories are called.
void MakeNamesUnique(const std::vector<std::string>& directories, proto::Report& report) {
  std::map<std::string, int> uses;
  for (const proto::ReportVariant& variant : report.variant()) ++uses[variant.name()];
  for (int i = 0; i < report.variant_size(); ++i) {
    proto::ReportVariant& variant = *report.mutable_variant(i);
    if (uses[variant.name()] > 1) variant.set_name(absl::StrCat(variant.name(), " (", directories[i], ")"));
  }
}

// What all runs have in common: a sentence that is not every run's is left out.
std::vector<std::string> SetupSentences(const std::vector<Run>& runs) {
  std::vector<std::string> common;
  for (size_t i = 0; i < runs.size(); ++i) {
    proto::Job job;
    const absl::StatusOr<std::string> text = ReadFile(runs[i].path + "/job.textproto", kMaxFileBytes);
    if (!text.ok() || !google::protobuf::TextFormat::ParseFromString(*text, &job)) return {};
    const std::vector<std::string> own = DescribeSetup(job, runs[i].summary);
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

absl::StatusOr<proto::Report> CollectReport(const std::string& path) {
  TETHYS_ASSIGN_OR_RETURN(const std::vector<Run> runs, FindRuns(path));
  std::map<std::string, std::vector<const Run*>> variants;
  std::vector<std::string> directories;
  for (const Run& run : runs) {
    if (variants[run.variant].empty()) directories.push_back(run.variant);
    variants[run.variant].push_back(&run);
  }
  proto::Report report;
  for (const std::string& directory : directories) AddVariant(variants[directory], report);
  MakeNamesUnique(directories, report);
  for (std::string& sentence : SetupSentences(runs)) report.add_setup(std::move(sentence));
  report.set_title(runs.size() == 1 ? runs[0].summary.job()
                                    : absl::StrCat("Comparison of ", directories.size(), " variants, ",
                                                   runs.size(), " runs"));
  report.set_made(absl::StrCat(Today(), ", build ", BuildId().substr(0, 12)));
  for (std::string& sentence : Verdict(report)) report.add_verdict(std::move(sentence));
  return report;
}

}  // namespace tethys
