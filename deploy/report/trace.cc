#include "deploy/report/trace.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "runtime/base/file.h"
#include "runtime/telemetry/csv_reader.h"
#include "runtime/telemetry/summary.h"

namespace tethys {
namespace {

// A phase of a step. kPhases lists the phases in their order within a step.
struct Phase {
  const char* name;
  const char* column;
};
constexpr Phase kPhases[] = {{"data", "data_ns"},
                             {"forward", "forward_ns"},
                             {"backward", "backward_ns"},
                             {"exchange", "exchange_ns"},
                             {"update", "update_ns"}};

// A greater rank means a damaged file.
constexpr int64_t kMaxRank = 1 << 20;

std::string Quoted(absl::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted.append({'\\', c});
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&quoted, "\\u%04x", static_cast<unsigned int>(c));
    } else {
      quoted.push_back(c);
    }
  }
  return quoted + "\"";
}

// A slice of the trace. The trace format calls each row a process: the row of rank r is process r + 1.
std::string Slice(absl::string_view name, int rank, double begin_us, double duration_us,
                  absl::string_view arguments) {
  return absl::StrFormat(R"({"name":%s,"ph":"X","pid":%d,"tid":1,"ts":%.3f,"dur":%.3f,"args":{%s}})",
                         Quoted(name), rank + 1, begin_us, duration_us, arguments);
}

std::string RowName(int rank, const proto::RunSummary& summary) {
  std::string name = absl::StrCat("worker ", rank);
  for (const proto::TaskSummary& task : summary.task()) {
    if (task.role() == "worker" && task.index() == rank) absl::StrAppend(&name, " on ", task.host());
  }
  return absl::StrFormat(R"({"name":"process_name","ph":"M","pid":%d,"tid":1,"args":{"name":%s}})", rank + 1,
                         Quoted(name));
}

}  // namespace

std::string ChromeTrace(absl::string_view steps_csv, const proto::RunSummary& summary) {
  std::vector<std::string> events;
  std::set<int> ranks;
  for (CsvReader csv(steps_csv); csv.Next();) {
    const int rank = static_cast<int>(std::clamp<int64_t>(csv.Integer("rank"), 0, kMaxRank));
    if (ranks.insert(rank).second) events.push_back(RowName(rank, summary));
    double begin_us = csv.Number("begin_ns") / 1e3;
    events.push_back(Slice(
        absl::StrCat("step ", csv.Text("step")), rank, begin_us, csv.Number("total_ns") / 1e3,
        absl::StrFormat(R"("epoch":%d,"samples":%d,"staleness":%d,"bytes_out":%d)", csv.Integer("epoch"),
                        csv.Integer("samples"), csv.Integer("staleness"), csv.Integer("bytes_out"))));
    for (const Phase& phase : kPhases) {
      const double duration_us = csv.Number(phase.column) / 1e3;
      if (duration_us > 0) events.push_back(Slice(phase.name, rank, begin_us, duration_us, ""));
      begin_us += duration_us;
    }
  }
  return absl::StrCat("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n", absl::StrJoin(events, ",\n"),
                      "\n]}\n");
}

absl::Status WriteTrace(const std::string& run_dir) {
  TETHYS_ASSIGN_OR_RETURN(const proto::RunSummary summary, ReadSummary(run_dir));
  TETHYS_ASSIGN_OR_RETURN(const std::string steps, ReadFile(run_dir + "/steps.csv"));
  return WriteFileAtomically(run_dir + "/trace.json", ChromeTrace(steps, summary));
}

}  // namespace tethys
