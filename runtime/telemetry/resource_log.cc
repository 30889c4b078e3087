#include "runtime/telemetry/resource_log.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace tethys {
namespace {

// A machine that sent nothing for this many intervals counts as gone: the sum over machines no longer waits
// for the machine.
constexpr int kPatienceIntervals = 3;

// `text` as a CSV cell: commas, quotes and line ends, which would break the line, become underscores.
std::string Cell(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == ',' || c == '"' || c == '\n' || c == '\r'; }, '_');
  return text;
}

constexpr size_t kMostBootIdBytes = 64;  // The longest accepted boot id; a boot id is a UUID.

// Limits that keep sums over samples from overflowing. An interval has at most 13 days, and a sample is taken
// at most 36 years after the machine's start.
constexpr Nanoseconds kMostInterval = int64_t{1} << 50;
constexpr Nanoseconds kLatest = int64_t{1} << 60;
constexpr int kMostCores = 1 << 20;

bool Plausible(const proto::ResourceSample& s) {
  const int64_t least =
      std::min({s.resident_bytes(), s.network_in_bytes(), s.network_out_bytes(), s.disk_read_bytes(),
                s.disk_write_bytes(), int64_t{s.cores()}, s.gpu_memory_bytes()});
  const auto sound = [](double value) { return std::isfinite(value) && value >= 0; };
  return s.interval_ns() > 0 && s.interval_ns() <= kMostInterval && s.taken_ns() >= 0 &&
         s.taken_ns() <= kLatest && s.cores() <= kMostCores && least >= 0 && sound(s.cpu_percent()) &&
         sound(s.gpu_percent()) && sound(s.gpu_power_watts());
}

// The cells about a GPU: ",37,81788928,412.5"; a missing value is an empty cell.
std::string GpuCells(const proto::ResourceSample& s) {
  return absl::StrCat(",", s.has_gpu_percent() ? absl::StrFormat("%.0f", s.gpu_percent()) : "", ",",
                      s.has_gpu_memory_bytes() ? absl::StrCat(s.gpu_memory_bytes()) : "", ",",
                      s.has_gpu_power_watts() ? absl::StrFormat("%.1f", s.gpu_power_watts()) : "");
}

}  // namespace

const char kResourcesCsvHeader[] =
    "seconds,host,process,cpu_percent,resident_bytes,network_in_bytes,network_out_bytes,disk_read_bytes,"
    "disk_write_bytes,gpu_percent,gpu_memory_bytes,gpu_power_watts";

absl::StatusOr<std::unique_ptr<ResourceLog>> ResourceLog::Open(const std::string& run_dir,
                                                               Nanoseconds begin) {
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<CsvFile> csv,
                          CsvFile::Open(absl::StrCat(run_dir, "/", kResourcesCsvFile), kResourcesCsvHeader));
  return std::unique_ptr<ResourceLog>(new ResourceLog(std::move(csv), begin));
}

void ResourceLog::SetMachines(const std::vector<std::string>& hosts) {
  for (const std::string& host : hosts) machines_[host];
}

absl::Status ResourceLog::Add(const std::string& host, const std::string& process,
                              const proto::ResourceSample& sample, Nanoseconds clock_offset) {
  if (!Plausible(sample)) return absl::OkStatus();
  const double length = ToSeconds(sample.interval_ns());
  const Values values = {sample.cpu_percent(),
                         static_cast<double>(sample.resident_bytes()),
                         sample.network_in_bytes() / length,
                         sample.network_out_bytes() / length,
                         sample.disk_read_bytes() / length,
                         sample.disk_write_bytes() / length};
  const Nanoseconds taken = sample.taken_ns() + clock_offset;
  Use& use = use_[{host, sample.machine() ? "" : process}];
  use.cores = sample.cores();
  if (sample.boot_id().size() <= kMostBootIdBytes) use.boot_id = sample.boot_id();
  use.Add(values, length);
  use.AddGpu(sample);
  if (sample.machine()) AddMachine(host, values, sample, taken);
  const std::string line =
      absl::StrFormat("%.3f,%s,%s,%.1f,%d,%d,%d,%d,%d", ToSeconds(taken - begin_), Cell(host),
                      sample.machine() ? "" : Cell(process), sample.cpu_percent(), sample.resident_bytes(),
                      sample.network_in_bytes(), sample.network_out_bytes(), sample.disk_read_bytes(),
                      sample.disk_write_bytes());
  return csv_->AddLine(line + GpuCells(sample));
}

void ResourceLog::AddMachine(const std::string& host, const Values& values,
                             const proto::ResourceSample& sample, Nanoseconds taken) {
  const auto machine = machines_.find(host);
  if (machine == machines_.end()) return;
  machine->second = {true, sample.cores(), taken, values};
  Values sum{};
  int cores = 0;
  for (const auto& [name, latest] : machines_) {
    const bool gone = latest.taken != 0 && latest.taken + kPatienceIntervals * sample.interval_ns() < taken;
    if (gone) continue;
    if (!latest.fresh) return;
    cores += latest.cores;
    for (int i = 0; i < kQuantities; ++i) sum[i] += latest.values[i];
  }
  cluster_.cores = std::max(cluster_.cores, cores);
  cluster_.Add(sum, ToSeconds(sample.interval_ns()));
  for (auto& [name, latest] : machines_) latest.fresh = false;
}

void ResourceLog::Gauge::Add(double value, double length) {
  minimum = seconds == 0 ? value : std::min(minimum, value);
  maximum = seconds == 0 ? value : std::max(maximum, value);
  weighted += value * length;
  seconds += length;
}

void ResourceLog::Gauge::Fill(proto::Range& range) const {
  range.set_mean(weighted / seconds);
  range.set_minimum(minimum);
  range.set_maximum(maximum);
}

void ResourceLog::Use::Add(const Values& values, double length) {
  for (int i = 0; i < kQuantities; ++i) gauges[i].Add(values[i], length);
  ++samples;
}

void ResourceLog::Use::AddGpu(const proto::ResourceSample& sample) {
  const double length = ToSeconds(sample.interval_ns());
  if (sample.has_gpu_percent()) gpu_percent.Add(sample.gpu_percent(), length);
  if (sample.has_gpu_memory_bytes()) {
    gpu_memory_bytes.Add(static_cast<double>(sample.gpu_memory_bytes()), length);
  }
  if (sample.has_gpu_power_watts()) gpu_power_watts.Add(sample.gpu_power_watts(), length);
}

void ResourceLog::Use::Fill(proto::ResourceSummary& summary) const {
  summary.set_cores(cores);
  summary.set_boot_id(boot_id);
  summary.set_samples(samples);
  proto::Range* const ranges[kQuantities] = {summary.mutable_cpu_percent(),
                                             summary.mutable_resident_bytes(),
                                             summary.mutable_network_in_bytes_per_second(),
                                             summary.mutable_network_out_bytes_per_second(),
                                             summary.mutable_disk_read_bytes_per_second(),
                                             summary.mutable_disk_write_bytes_per_second()};
  for (int i = 0; i < kQuantities; ++i) gauges[i].Fill(*ranges[i]);
  if (gpu_percent.seconds > 0) gpu_percent.Fill(*summary.mutable_gpu_percent());
  if (gpu_memory_bytes.seconds > 0) gpu_memory_bytes.Fill(*summary.mutable_gpu_memory_bytes());
  if (gpu_power_watts.seconds > 0) gpu_power_watts.Fill(*summary.mutable_gpu_power_watts());
}

void ResourceLog::FillSummary(proto::RunSummary& summary) const {
  if (cluster_.samples > 0) cluster_.Fill(*summary.add_resources());
  for (const bool machines : {true, false}) {
    for (const auto& [name, use] : use_) {
      if (name.second.empty() != machines) continue;
      proto::ResourceSummary& line = *summary.add_resources();
      line.set_host(name.first);
      line.set_process(name.second);
      use.Fill(line);
    }
  }
}

}  // namespace tethys
