// Writes events in the JSON of "Trace Event Format" (Google), which chrome://tracing and ui.perfetto.dev
// show. The format calls a row a process, and parts of a row threads. Times are in microseconds on one clock.
// Pure; thread-compatible.
#ifndef TETHYS_DEPLOY_REPORT_TRACE_WRITER_H_
#define TETHYS_DEPLOY_REPORT_TRACE_WRITER_H_

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace tethys {

// A process of the job. Rows are shown in this order: the chief, servers, workers.
struct TraceRow {
  enum class Role { kChief, kServer, kWorker };
  Role role = Role::kChief;
  int index = 0;  // In [0, kMostIndex].

  static constexpr int kMostIndex = 1 << 20;
  bool operator==(const TraceRow&) const = default;
};

// Parses the name of a process in the files of a run: "chief", "ps 1", "worker 3". Returns false for other
// texts.
bool ParseTraceRow(absl::string_view process, TraceRow& row);
std::string TraceRowText(const TraceRow& row);

class TraceWriter {
 public:
  // `name` gives a row's name; it is called once for each row that has an event.
  explicit TraceWriter(std::function<std::string(const TraceRow&)> name) : name_(std::move(name)) {}

  // Adds a slice to part `part` (from 1) of a row. Slices of one part must follow or contain one another. The
  // begin and the end of the slice are rounded to whole ns, which keeps the order and the nesting of slices.
  // A slice that is shorter than 1 ns is left out. `arguments` are members of a JSON object:
  // "\"samples\":128".
  void Slice(const TraceRow& row, int part, absl::string_view name, double begin_us, double duration_us,
             absl::string_view arguments = "");
  void NamePart(const TraceRow& row, int part, absl::string_view name);
  // Adds an event without a duration.
  void Instant(const TraceRow& row, absl::string_view name, double time_us);
  // Adds a point to the curve `name` beneath the row. `values`: members of a JSON object, as in Slice; each
  // is a number.
  void Counter(const TraceRow& row, absl::string_view name, double time_us, absl::string_view values);

  std::string Json() const;

 private:
  int Process(const TraceRow& row);

  const std::function<std::string(const TraceRow&)> name_;
  std::set<int> rows_;
  std::set<std::pair<int, int>> parts_;
  std::vector<std::string> events_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_TRACE_WRITER_H_
