#include "deploy/report/resource_table.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/report/variant_name.h"
#include "deploy/text.h"

namespace tethys {
namespace {

constexpr double kMebibyte = 1 << 20;
constexpr double kMegabyte = 1e6;
constexpr int kCaptionWidth = 100;

// One quantity of the resource lines, merged over all lines that contain this quantity.
struct Merged {
  int lines = 0;
  double means = 0;  // The sum of the lines' means.
  double minimum = 0;
  double maximum = 0;

  void Add(const proto::Range& range) {
    minimum = lines == 0 ? range.minimum() : std::min(minimum, range.minimum());
    maximum = lines == 0 ? range.maximum() : std::max(maximum, range.maximum());
    means += range.mean();
    ++lines;
  }
};

// The use of one machine, or of all machines together, over the repeats of a variant.
struct MachineUse {
  int cores = 0;
  std::vector<std::string> processes;  // The job's processes on this machine.
  Merged cpu, memory, in, out;
  double job_cpu = 0, job_memory = 0;         // Sums of the means of the job's processes, over all runs.
  Merged gpu_percent, gpu_memory, gpu_power;  // Merged over the individual GPUs.

  void Add(const proto::ResourceSummary& line) {
    cores = std::max(cores, line.cores());
    cpu.Add(line.cpu_percent());
    memory.Add(line.resident_bytes());
    in.Add(line.network_in_bytes_per_second());
    out.Add(line.network_out_bytes_per_second());
  }
  void AddProcess(const proto::ResourceSummary& process) {
    job_cpu += process.cpu_percent().mean();
    job_memory += process.resident_bytes().mean();
  }
  void AddGpu(const proto::ResourceSummary& process) {
    if (process.has_gpu_percent()) gpu_percent.Add(process.gpu_percent());
    if (process.has_gpu_memory_bytes()) gpu_memory.Add(process.gpu_memory_bytes());
    if (process.has_gpu_power_watts()) gpu_power.Add(process.gpu_power_watts());
  }
};

// The use by host; "" stands for all machines together.
std::map<std::string, MachineUse> UseOf(absl::Span<const RunRecord> runs, int variant) {
  std::map<std::string, MachineUse> machines;
  for (const RunRecord& run : runs) {
    if (run.variant != variant || !run.status.ok()) continue;
    for (const proto::ResourceSummary& line : run.summary.resources()) {
      MachineUse& use = machines[line.host()];
      std::vector<std::string>& processes = use.processes;
      if (line.process().empty()) {
        use.Add(line);
        continue;
      }
      for (MachineUse* of : {&use, &machines[""]}) {
        of->AddProcess(line);
        of->AddGpu(line);
      }
      if (std::find(processes.begin(), processes.end(), line.process()) == processes.end()) {
        processes.push_back(line.process());
      }
    }
  }
  return machines;
}

void AppendCells(const Merged& merged, double factor, int digits, std::vector<std::string>& row) {
  for (const double value : {merged.means / merged.lines, merged.maximum}) {
    row.push_back(merged.lines == 0 ? "-" : absl::StrFormat("%.*f", digits, value * factor));
  }
}

void AppendMeasured(const MachineUse& use, bool with_gpus, std::vector<std::string>& row) {
  const double cores = std::max(1, use.cores);
  AppendCells(use.cpu, 1 / cores, 1, row);
  row.push_back(absl::StrFormat("%.1f", use.job_cpu / use.cpu.lines / cores));
  AppendCells(use.memory, 1 / kMebibyte, 0, row);
  row.push_back(absl::StrFormat("%.0f", use.job_memory / use.cpu.lines / kMebibyte));
  AppendCells(use.in, 1 / kMegabyte, 1, row);
  AppendCells(use.out, 1 / kMegabyte, 1, row);
  if (!with_gpus) return;
  AppendCells(use.gpu_percent, 1, 1, row);
  AppendCells(use.gpu_memory, 1 / kMebibyte, 0, row);
  AppendCells(use.gpu_power, 1, 0, row);
}

bool AnyTellsOfAGpu(absl::Span<const RunRecord> runs) {
  return std::any_of(runs.begin(), runs.end(), [](const RunRecord& run) {
    const auto& lines = run.summary.resources();
    return run.status.ok() && std::any_of(lines.begin(), lines.end(), [](const proto::ResourceSummary& line) {
             return line.has_gpu_percent() || line.has_gpu_memory_bytes() || line.has_gpu_power_watts();
           });
  });
}

// The columns that identify a row's variant: letters, name, variations, strategy and batch.
std::vector<Column> VariantColumns(absl::Span<const Variation> variations) {
  std::vector<Column> columns = {{{""}, true}, {{"job"}, true}};
  for (const Variation& variation : variations) columns.push_back({FieldHeader(variation.field)});
  columns.push_back({{"strategy"}, true});
  columns.push_back({{"batch"}});
  return columns;
}
std::vector<std::string> VariantCells(int index, const VariantLabel& label, const std::string& prefix) {
  std::vector<std::string> cells = {VariantLetters(index), label.job.substr(prefix.size())};
  cells.insert(cells.end(), label.values.begin(), label.values.end());
  cells.push_back(label.strategy);
  cells.push_back(std::to_string(label.global_batch));
  return cells;
}

void AppendMeasuredColumns(bool with_gpus, std::vector<Column>& columns) {
  const auto add = [&columns](const char* quantity) {
    for (const char* what : {"mean", "most"}) columns.push_back({{quantity, what}});
  };
  add("CPU %");
  columns.push_back({{"job's", "CPU %", "mean"}});
  add("MiB");
  columns.push_back({{"job's", "MiB", "mean"}});
  for (const char* quantity : {"in MB/s", "out MB/s"}) add(quantity);
  if (!with_gpus) return;
  for (const char* quantity : {"GPU %", "GPU MiB", "GPU W"}) add(quantity);
}

// Appends the cells of a range to a line of the CSV; empty cells if no range was reported (`told` is false).
void AppendGpuCells(bool told, const proto::Range& range, std::vector<std::string>& cells) {
  for (const double value : {range.mean(), range.minimum(), range.maximum()}) {
    cells.push_back(told ? NumberCell(value) : "");
  }
}

// Names the processes in a text short enough for a column.
std::string ProcessesText(const std::vector<std::string>& processes) {
  if (processes.size() <= 3) return absl::StrJoin(processes, ", ");
  return absl::StrCat(processes[0], " and ", processes.size() - 1, " more");
}

}  // namespace

std::string ResourceTables(absl::Span<const VariantLabel> labels, absl::Span<const Variation> variations,
                           absl::Span<const RunRecord> runs, int width) {
  std::vector<Column> cluster_columns = VariantColumns(variations), machine_columns = cluster_columns;
  cluster_columns.push_back({{"cores"}});
  machine_columns.push_back({{"machine"}, true});
  machine_columns.push_back({{"processes"}, true});
  const bool with_gpus = AnyTellsOfAGpu(runs);
  AppendMeasuredColumns(with_gpus, cluster_columns);
  AppendMeasuredColumns(with_gpus, machine_columns);
  std::vector<std::vector<std::string>> cluster_rows, machine_rows;
  const std::string prefix = CommonPrefix(labels);
  for (size_t i = 0; i < labels.size(); ++i) {
    for (const auto& [host, use] : UseOf(runs, i)) {
      if (use.cpu.lines == 0) continue;
      std::vector<std::string> row = VariantCells(static_cast<int>(i), labels[i], prefix);
      if (host.empty()) {
        row.push_back(std::to_string(use.cores));
      } else {
        row.insert(row.end(), {host, ProcessesText(use.processes)});
      }
      AppendMeasured(use, with_gpus, row);
      (host.empty() ? cluster_rows : machine_rows).push_back(std::move(row));
    }
  }
  if (cluster_rows.empty()) return "";
  const size_t keys = VariantColumns(variations).size();
  const bool several = machine_rows.size() > cluster_rows.size();
  const std::string caption = absl::StrCat(
      several ? "All machines together" : "The machine",
      ": CPU in % of all cores and memory in MiB, for all programs and for the job's processes alone",
      with_gpus ? "; GPU values are per GPU" : "", ".");
  const std::string cluster = absl::StrCat(Wrap(caption, "", width > 0 ? width : kCaptionWidth), "\n",
                                           Table(cluster_columns, cluster_rows, width, keys));
  if (!several) return cluster;
  return absl::StrCat(cluster, "\nLoad of each machine\n\n",
                      Table(machine_columns, machine_rows, width, keys + 1));
}

std::string ResourceCsv(absl::Span<const VariantLabel> labels, absl::Span<const Variation> variations,
                        absl::Span<const RunRecord> runs) {
  std::vector<std::string> header = LabelHeader(variations);
  for (const char* name : {"repeat", "seed", "host", "process", "cores", "samples"}) header.push_back(name);
  for (const char* name :
       {"cpu_percent", "resident_bytes", "network_in_bytes_per_second", "network_out_bytes_per_second",
        "disk_read_bytes_per_second", "disk_write_bytes_per_second", "gpu_percent", "gpu_memory_bytes",
        "gpu_power_watts"}) {
    for (const char* what : {"_mean", "_minimum", "_maximum"}) header.push_back(absl::StrCat(name, what));
  }
  std::string csv = CsvLine(header);
  for (const RunRecord& run : runs) {
    for (const proto::ResourceSummary& line : run.summary.resources()) {
      std::vector<std::string> cells = LabelCells(labels[run.variant]);
      cells.insert(cells.end(),
                   {std::to_string(run.repeat), std::to_string(run.seed), line.host(), line.process(),
                    std::to_string(line.cores()), std::to_string(line.samples())});
      for (const proto::Range* range :
           {&line.cpu_percent(), &line.resident_bytes(), &line.network_in_bytes_per_second(),
            &line.network_out_bytes_per_second(), &line.disk_read_bytes_per_second(),
            &line.disk_write_bytes_per_second()}) {
        for (const double value : {range->mean(), range->minimum(), range->maximum()}) {
          cells.push_back(NumberCell(value));
        }
      }
      AppendGpuCells(line.has_gpu_percent(), line.gpu_percent(), cells);
      AppendGpuCells(line.has_gpu_memory_bytes(), line.gpu_memory_bytes(), cells);
      AppendGpuCells(line.has_gpu_power_watts(), line.gpu_power_watts(), cells);
      absl::StrAppend(&csv, CsvLine(cells));
    }
  }
  return csv;
}

}  // namespace tethys
