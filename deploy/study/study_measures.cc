#include "deploy/study/study_measures.h"

#include <algorithm>
#include <map>

namespace tethys {
namespace {

using Summary = proto::RunSummary;
using Value = absl::optional<double>;

Value Positive(double value) { return value > 0 ? Value(value) : absl::nullopt; }

// The use of all computers. Hosts that share a kernel are one computer, and each host has measured the whole
// computer.
struct ComputersUse {
  double cpu_percent = 0;  // In percent of one core.
  double memory_bytes = 0;
  int cores = 0;
};
ComputersUse UseOfComputers(const Summary& summary) {
  std::map<std::string, ComputersUse> computers;
  for (const proto::ResourceSummary& use : summary.resources()) {
    if (use.host().empty() || !use.process().empty()) continue;
    ComputersUse& computer = computers[use.boot_id().empty() ? use.host() : use.boot_id()];
    computer.cpu_percent = std::max(computer.cpu_percent, use.cpu_percent().mean());
    computer.memory_bytes = std::max(computer.memory_bytes, use.resident_bytes().mean());
    computer.cores = std::max(computer.cores, use.cores());
  }
  ComputersUse all;
  for (const auto& [kernel, computer] : computers) {
    all.cpu_percent += computer.cpu_percent;
    all.memory_bytes += computer.memory_bytes;
    all.cores += computer.cores;
  }
  return all;
}

Value NetworkIn(const Summary& summary) {
  double bytes = 0;
  for (const proto::ResourceSummary& use : summary.resources()) {
    if (!use.host().empty() && use.process().empty()) bytes += use.network_in_bytes_per_second().mean();
  }
  return Positive(bytes);
}

Value JobMemory(const Summary& summary) {
  double bytes = 0;
  for (const proto::ResourceSummary& use : summary.resources()) {
    if (!use.process().empty()) bytes += use.resident_bytes().mean();
  }
  return Positive(bytes);
}

constexpr Measure kMeasures[] = {
    {"training_seconds", "training, s", 1, true,
     [](const Summary& s) { return Positive(s.timing().training_seconds()); }},
    {"total_seconds", "in all, s", 1, true,
     [](const Summary& s) { return Positive(s.timing().total_seconds()); }},
    {"test_accuracy", "test accuracy, %", 100, false,
     [](const Summary& s) { return s.test().has_accuracy() ? Value(s.test().accuracy()) : absl::nullopt; }},
    {"validation_accuracy", "validation accuracy, %", 100, false,
     [](const Summary& s) {
       return s.validation().has_accuracy() ? Value(s.validation().accuracy()) : absl::nullopt;
     }},
    {"samples_per_second", "samples/s", 1, true,
     [](const Summary& s) { return Positive(s.timing().samples_per_second()); }},
    {"cost", "cost, in the currency of the prices", 1, true,
     [](const Summary& s) { return s.has_cost() ? Positive(s.cost().run()) : absl::nullopt; }},
    {"cpu_share", "CPU of all computers, %", 100, true,
     [](const Summary& s) {
       const ComputersUse use = UseOfComputers(s);
       return use.cores > 0 ? Positive(use.cpu_percent / 100 / use.cores) : absl::nullopt;
     }},
    {"memory_bytes", "memory of all computers, GB", 1e-9, true,
     [](const Summary& s) { return Positive(UseOfComputers(s).memory_bytes); }},
    {"job_memory_bytes", "memory of the job's processes, GB", 1e-9, true, JobMemory},
    {"network_bytes_per_second", "received by all machines, MB/s", 1e-6, true, NetworkIn},
    {"exposed_share", "waiting for the exchange, %", 100, false,
     [](const Summary& s) {
       return s.has_communication() ? Value(s.communication().exposed_share()) : absl::nullopt;
     }},
    {"mean_staleness", "staleness", 1, false,
     [](const Summary& s) { return Positive(s.communication().mean_staleness()); }},
    {"tmi_avg_seconds", "TMiAvg, ms", 1000, true,
     [](const Summary& s) {
       return s.timing().has_tmi_avg_seconds() ? Positive(s.timing().tmi_avg_seconds()) : absl::nullopt;
     }},
    {"first_iteration_seconds", "first iteration, ms", 1000, true,
     [](const Summary& s) { return Positive(s.timing().first_iteration_seconds()); }},
    {"beta", "β, %", 100, true,
     [](const Summary& s) { return s.timing().has_beta() ? Positive(s.timing().beta()) : absl::nullopt; }},
};

}  // namespace

bool IsShare(const Measure& measure) {
  constexpr double kPercent = 100;
  return measure.scale == kPercent && !measure.ratios;
}

absl::Span<const Measure> AllMeasures() { return kMeasures; }

const Measure* FindMeasure(absl::string_view name) {
  for (const Measure& measure : kMeasures) {
    if (name == measure.name) return &measure;
  }
  return nullptr;
}

}  // namespace tethys
