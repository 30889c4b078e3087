#include "deploy/report/report_series.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/telemetry/csv_reader.h"

namespace tethys {
namespace {

constexpr size_t kMaxPoints = 240;  // Longer series are thinned, so that a browser can show them.

// Sums over the resource samples of a machine or process during training, and the time that they cover.
struct TrainingSums {
  double seconds = 0;
  double cpu = 0;  // The CPU use in percent of one core, times its seconds.
  double megabytes = 0;
};
// Keyed by process; the machine itself has the key "".
using UseByProcess = std::map<std::string, TrainingSums>;

// True if a sample lies entirely within training (validation included): after start-up and before the end.
bool IsTraining(double begin, double end, const proto::Timing& timing) {
  const double start = timing.startup_seconds();
  return begin >= start && end <= start + timing.training_seconds() + timing.validation_seconds();
}

// Sets the use of a machine in training. No-op if samples cover less than half of the training, because a
// short run may begin and end between two samples.
void SetUse(const UseByProcess& processes, double training_seconds, proto::MachineSeries& series) {
  proto::MachineUse use;
  for (const auto& [process, sums] : processes) {
    if (sums.seconds <= 0 || sums.seconds < training_seconds / 2) return;
    const double cpu = sums.cpu / sums.seconds;
    if (process.empty()) {
      use.set_cpu_percent(cpu);
      continue;
    }
    use.set_job_cpu_percent(use.job_cpu_percent() + cpu);
    use.set_job_network_mb_per_second(use.job_network_mb_per_second() + sums.megabytes / sums.seconds);
  }
  *series.mutable_training() = use;
}

}  // namespace

void AddMachines(absl::string_view text, proto::ReportVariant& variant) {
  std::map<std::string, std::vector<std::array<double, 4>>> machines;
  std::map<std::string, UseByProcess> uses;
  // The end of the last sample, by host and process.
  std::map<std::pair<std::string, std::string>, double> last;
  for (CsvReader csv(text); csv.Next();) {
    const std::string host(csv.Text("host")), process(csv.Text("process"));
    const double seconds = csv.Number("seconds"), cpu = csv.Number("cpu_percent");
    const double megabytes = (csv.Number("network_in_bytes") + csv.Number("network_out_bytes")) / 1e6;
    if (process.empty()) {
      machines[host].push_back({seconds, cpu, csv.Number("resident_bytes") / (1 << 20), megabytes});
    }
    const double begin = std::exchange(last[{host, process}], seconds);
    TrainingSums& sums = uses[host][process];
    if (begin >= seconds || !IsTraining(begin, seconds, variant.summary().timing())) continue;
    sums.seconds += seconds - begin;
    sums.cpu += cpu * (seconds - begin);
    sums.megabytes += megabytes;
  }
  for (const auto& [host, samples] : machines) {
    proto::MachineSeries& series = *variant.add_machine();
    series.set_host(host);
    SetUse(uses[host], variant.summary().timing().training_seconds(), series);
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
    Sum& sum = ranks[static_cast<int>(csv.Integer("rank"))];
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

}  // namespace tethys
