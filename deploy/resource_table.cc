#include "deploy/resource_table.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/text.h"

namespace tethys {
namespace {

constexpr double kMebibyte = 1 << 20;
constexpr double kMegabyte = 1e6;

// One machine, or all together, over the repeats of a variant.
struct MachineUse {
  int runs = 0;
  int cores = 0;
  std::vector<std::string> processes;  // That ran there.
  proto::Range cpu, memory, in, out;   // Means are sums until the table divides them by `runs`.
};

void Merge(const proto::Range& range, bool first, proto::Range& into) {
  into.set_mean(into.mean() + range.mean());
  into.set_minimum(first ? range.minimum() : std::min(into.minimum(), range.minimum()));
  into.set_maximum(first ? range.maximum() : std::max(into.maximum(), range.maximum()));
}

void Merge(const proto::ResourceSummary& line, MachineUse& use) {
  const bool first = use.runs++ == 0;
  use.cores = std::max(use.cores, line.cores());
  Merge(line.cpu_percent(), first, use.cpu);
  Merge(line.resident_bytes(), first, use.memory);
  Merge(line.network_in_bytes_per_second(), first, use.in);
  Merge(line.network_out_bytes_per_second(), first, use.out);
}

// By host; "": all machines together.
std::map<std::string, MachineUse> UseOf(absl::Span<const RunRecord> runs, int variant) {
  std::map<std::string, MachineUse> machines;
  for (const RunRecord& run : runs) {
    if (run.variant != variant || !run.status.ok()) continue;
    for (const proto::ResourceSummary& line : run.summary.resources()) {
      MachineUse& use = machines[line.host()];
      std::vector<std::string>& processes = use.processes;
      if (line.process().empty()) {
        Merge(line, use);
      } else if (std::find(processes.begin(), processes.end(), line.process()) == processes.end()) {
        processes.push_back(line.process());
      }
    }
  }
  return machines;
}

void AppendCells(const proto::Range& range, int runs, double factor, int digits,
                 std::vector<std::string>& row) {
  for (const double value : {range.mean() / runs, range.minimum(), range.maximum()}) {
    row.push_back(absl::StrFormat("%.*f", digits, value * factor));
  }
}

void AppendMeasured(const MachineUse& use, std::vector<std::string>& row) {
  AppendCells(use.cpu, use.runs, 1.0 / std::max(1, use.cores), 1, row);
  AppendCells(use.memory, use.runs, 1 / kMebibyte, 0, row);
  AppendCells(use.in, use.runs, 1 / kMegabyte, 1, row);
  AppendCells(use.out, use.runs, 1 / kMegabyte, 1, row);
}

// Name, variations, strategy and batch: which variant a row is of.
std::vector<Column> VariantColumns(absl::Span<const Variation> variations) {
  std::vector<Column> columns = {{{"job"}, true}};
  for (const Variation& variation : variations) columns.push_back({FieldHeader(variation.field)});
  columns.push_back({{"batch"}});
  return columns;
}
std::vector<std::string> VariantCells(const VariantLabel& label, const std::string& prefix) {
  std::vector<std::string> cells = {label.job.substr(prefix.size())};
  cells.insert(cells.end(), label.values.begin(), label.values.end());
  cells.push_back(std::to_string(label.global_batch));
  return cells;
}

void AppendMeasuredColumns(std::vector<Column>& columns) {
  for (const char* quantity : {"CPU %", "MiB", "in MB/s", "out MB/s"}) {
    for (const char* what : {"mean", "least", "most"}) columns.push_back({{quantity, what}});
  }
}

// Short enough for a column.
std::string ProcessesText(const std::vector<std::string>& processes) {
  if (processes.size() <= 3) return absl::StrJoin(processes, ", ");
  return absl::StrCat(processes[0], " and ", processes.size() - 1, " more");
}

}  // namespace

std::string ResourceTables(absl::Span<const VariantLabel> labels, absl::Span<const Variation> variations,
                           absl::Span<const RunRecord> runs) {
  std::vector<Column> cluster_columns = VariantColumns(variations), machine_columns = cluster_columns;
  cluster_columns.push_back({{"cores"}});
  machine_columns.push_back({{"machine"}, true});
  machine_columns.push_back({{"processes"}, true});
  AppendMeasuredColumns(cluster_columns);
  AppendMeasuredColumns(machine_columns);
  std::vector<std::vector<std::string>> cluster_rows, machine_rows;
  const std::string prefix = CommonPrefix(labels);
  for (size_t i = 0; i < labels.size(); ++i) {
    for (const auto& [host, use] : UseOf(runs, i)) {
      if (use.runs == 0) continue;
      std::vector<std::string> row = VariantCells(labels[i], prefix);
      if (host.empty()) {
        row.push_back(std::to_string(use.cores));
      } else {
        row.insert(row.end(), {host, ProcessesText(use.processes)});
      }
      AppendMeasured(use, row);
      (host.empty() ? cluster_rows : machine_rows).push_back(std::move(row));
    }
  }
  if (cluster_rows.empty()) return "";
  return absl::StrCat("All machines together (CPU in % of all cores)\n\n",
                      Table(cluster_columns, cluster_rows), "\nLoad of each machine\n\n",
                      Table(machine_columns, machine_rows));
}

std::string ResourceCsv(absl::Span<const VariantLabel> labels, absl::Span<const Variation> variations,
                        absl::Span<const RunRecord> runs) {
  std::vector<std::string> header = LabelHeader(variations);
  for (const char* name : {"repeat", "seed", "host", "process", "cores", "samples"}) header.push_back(name);
  for (const char* name :
       {"cpu_percent", "resident_bytes", "network_in_bytes_per_second", "network_out_bytes_per_second",
        "disk_read_bytes_per_second", "disk_write_bytes_per_second"}) {
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
      absl::StrAppend(&csv, CsvLine(cells));
    }
  }
  return csv;
}

}  // namespace tethys
