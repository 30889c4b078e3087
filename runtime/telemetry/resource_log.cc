#include "runtime/telemetry/resource_log.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace tethys {
namespace {

// A machine that sent nothing for so many intervals is gone, and the others no longer wait for it.
constexpr int kPatienceIntervals = 3;

// A name with a comma, a quote or a line end would break its line.
std::string Cell(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == ',' || c == '"' || c == '\n' || c == '\r'; }, '_');
  return text;
}

bool Plausible(const proto::ResourceSample& s) {
  const int64_t least = std::min({s.resident_bytes(), s.network_in_bytes(), s.network_out_bytes(),
                                  s.disk_read_bytes(), s.disk_write_bytes(), int64_t{s.cores()}});
  return s.interval_ns() > 0 && least >= 0 && std::isfinite(s.cpu_percent()) && s.cpu_percent() >= 0;
}

}  // namespace

const char kResourcesCsvHeader[] =
    "seconds,host,process,cpu_percent,resident_bytes,network_in_bytes,network_out_bytes,disk_read_bytes,"
    "disk_write_bytes";

absl::StatusOr<std::unique_ptr<ResourceLog>> ResourceLog::Open(const std::string& run_dir,
                                                               Nanoseconds begin) {
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<CsvFile> csv,
                          CsvFile::Open(absl::StrCat(run_dir, "/resources.csv"), kResourcesCsvHeader));
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
  use.Add(values, length);
  if (sample.machine()) AddMachine(host, values, sample, taken);
  return csv_->AddLine(absl::StrFormat("%.3f,%s,%s,%.1f,%d,%d,%d,%d,%d", ToSeconds(taken - begin_),
                                       Cell(host), sample.machine() ? "" : Cell(process),
                                       sample.cpu_percent(), sample.resident_bytes(),
                                       sample.network_in_bytes(), sample.network_out_bytes(),
                                       sample.disk_read_bytes(), sample.disk_write_bytes()));
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

void ResourceLog::Use::Add(const Values& values, double length) {
  for (int i = 0; i < kQuantities; ++i) {
    weighted[i] += values[i] * length;
    minimum[i] = samples == 0 ? values[i] : std::min(minimum[i], values[i]);
    maximum[i] = samples == 0 ? values[i] : std::max(maximum[i], values[i]);
  }
  seconds += length;
  ++samples;
}

void ResourceLog::Use::Fill(proto::ResourceSummary& summary) const {
  summary.set_cores(cores);
  summary.set_samples(samples);
  proto::Range* const ranges[kQuantities] = {summary.mutable_cpu_percent(),
                                             summary.mutable_resident_bytes(),
                                             summary.mutable_network_in_bytes_per_second(),
                                             summary.mutable_network_out_bytes_per_second(),
                                             summary.mutable_disk_read_bytes_per_second(),
                                             summary.mutable_disk_write_bytes_per_second()};
  for (int i = 0; i < kQuantities; ++i) {
    ranges[i]->set_mean(weighted[i] / seconds);
    ranges[i]->set_minimum(minimum[i]);
    ranges[i]->set_maximum(maximum[i]);
  }
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
