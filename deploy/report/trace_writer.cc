#include "deploy/report/trace_writer.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "deploy/json_text.h"

namespace tethys {
namespace {

// Nanoseconds per microsecond; nanoseconds are the resolution of the trace.
constexpr double kPerMicrosecond = 1000;
constexpr int kMostRows = TraceRow::kMostIndex + 1;

// The number of a row in the trace, from 1; workers come first.
int NumberOf(const TraceRow& row) {
  switch (row.role) {
    case TraceRow::Role::kWorker:
      return row.index + 1;
    case TraceRow::Role::kServer:
      return kMostRows + row.index + 1;
    case TraceRow::Role::kChief:
      break;
  }
  return 2 * kMostRows + 1;
}

int OrderOf(const TraceRow& row) {
  switch (row.role) {
    case TraceRow::Role::kChief:
      return 0;
    case TraceRow::Role::kServer:
      return 1 + row.index;
    case TraceRow::Role::kWorker:
      break;
  }
  return 1 + kMostRows + row.index;
}

}  // namespace

bool ParseTraceRow(absl::string_view process, TraceRow& row) {
  if (process == "chief") {
    row = {TraceRow::Role::kChief, 0};
    return true;
  }
  row.role = absl::ConsumePrefix(&process, "worker ") ? TraceRow::Role::kWorker : TraceRow::Role::kServer;
  if (row.role == TraceRow::Role::kServer && !absl::ConsumePrefix(&process, "ps ")) return false;
  return absl::SimpleAtoi(process, &row.index) && row.index >= 0 && row.index <= TraceRow::kMostIndex;
}

std::string TraceRowText(const TraceRow& row) {
  if (row.role == TraceRow::Role::kChief) return "chief";
  return absl::StrCat(row.role == TraceRow::Role::kServer ? "ps " : "worker ", row.index);
}

int TraceWriter::Process(const TraceRow& row) {
  const int number = NumberOf(row);
  if (!rows_.insert(number).second) return number;
  events_.push_back(absl::StrFormat(R"({"name":"process_name","ph":"M","pid":%d,"tid":1,"args":{"name":%s}})",
                                    number, JsonQuoted(name_(row))));
  events_.push_back(
      absl::StrFormat(R"({"name":"process_sort_index","ph":"M","pid":%d,"tid":1,"args":{"sort_index":%d}})",
                      number, OrderOf(row)));
  return number;
}

void TraceWriter::Slice(const TraceRow& row, int part, absl::string_view name, double begin_us,
                        double duration_us, absl::string_view arguments) {
  const double begin = std::round(begin_us * kPerMicrosecond);
  const double length = std::round((begin_us + duration_us) * kPerMicrosecond) - begin;
  if (!(length >= 1)) return;
  events_.push_back(absl::StrFormat(
      R"({"name":%s,"ph":"X","pid":%d,"tid":%d,"ts":%.3f,"dur":%.3f,"args":{%s}})", JsonQuoted(name),
      Process(row), part, begin / kPerMicrosecond, length / kPerMicrosecond, arguments));
}

void TraceWriter::NamePart(const TraceRow& row, int part, absl::string_view name) {
  const int process = Process(row);
  if (!parts_.insert({process, part}).second) return;
  events_.push_back(absl::StrFormat(R"({"name":"thread_name","ph":"M","pid":%d,"tid":%d,"args":{"name":%s}})",
                                    process, part, JsonQuoted(name)));
}

void TraceWriter::Instant(const TraceRow& row, absl::string_view name, double time_us) {
  events_.push_back(absl::StrFormat(R"({"name":%s,"ph":"i","s":"p","pid":%d,"tid":1,"ts":%.3f})",
                                    JsonQuoted(name), Process(row), time_us));
}

void TraceWriter::Counter(const TraceRow& row, absl::string_view name, double time_us,
                          absl::string_view values) {
  events_.push_back(absl::StrFormat(R"({"name":%s,"ph":"C","pid":%d,"tid":1,"ts":%.3f,"args":{%s}})",
                                    JsonQuoted(name), Process(row), time_us, values));
}

std::string TraceWriter::Json() const {
  return absl::StrCat("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n", absl::StrJoin(events_, ",\n"),
                      "\n]}\n");
}

}  // namespace tethys
