#include "deploy/report/trace.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/types/optional.h"
#include "deploy/report/run_course.h"
#include "deploy/report/trace_writer.h"
#include "runtime/base/file.h"
#include "runtime/telemetry/csv_reader.h"
#include "runtime/telemetry/summary.h"

namespace tethys {
namespace {

constexpr const char* kPhaseNames[kCoursePhases] = {"data", "forward", "backward", "exchange", "update"};
constexpr TraceRow kChief = {TraceRow::Role::kChief, 0};
constexpr double kMost = 1e12;  // Larger numbers of seconds, bytes or percent come from damaged files.
constexpr double kShortestInterval = 0.001;  // The resolution of resources.csv, in seconds.

TraceRow WorkerRow(int rank) { return {TraceRow::Role::kWorker, rank}; }

std::string RowName(const TraceRow& row, const proto::RunSummary& summary) {
  const std::string process = TraceRowText(row);
  for (const proto::TaskSummary& task : summary.task()) {
    if (absl::StrCat(task.role(), " ", task.index()) == process)
      return absl::StrCat(process, " on ", task.host());
  }
  return process;
}

double Bounded(double number) { return std::isfinite(number) ? std::clamp(number, -kMost, kMost) : 0; }

// Makes the trace of one run.
class RunTrace {
 public:
  RunTrace(const TracedFiles& files, const proto::RunSummary& summary)
      : files_(files),
        summary_(summary),
        course_(ReadRunCourse(files.steps_csv, files.journal)),
        trace_([&summary](const TraceRow& row) { return RowName(row, summary); }) {
    FindBegin();
  }

  std::string Json() {
    AddSteps();
    AddSegments();
    AddPushes();
    if (begin_.has_value()) AddLosses(*begin_);
    if (begin_.has_value()) AddResources(*begin_);
    return trace_.Json();
  }

 private:
  // Finds the time when the chief started. The start-up is taken to end when the first step begins, because
  // the chief's order to begin reaches a worker almost at once.
  void FindBegin() {
    const double startup = Bounded(summary_.timing().startup_seconds());
    if (startup <= 0 || course_.first >= course_.steps.size()) return;
    double first = course_.steps[course_.first].begin;
    for (size_t i = course_.first; i < course_.steps.size(); ++i)
      first = std::min(first, course_.steps[i].begin);
    begin_ = first - startup * 1e6;
    trace_.Slice(kChief, 1, "start-up", *begin_, startup * 1e6);
  }

  void AddSteps() {
    for (const CourseStep& step : course_.steps) {
      const TraceRow row = WorkerRow(step.rank);
      trace_.Slice(row, 1, absl::StrCat("step ", step.step), step.begin, step.total,
                   absl::StrFormat(R"("epoch":%d,"samples":%d,"staleness":%d,"bytes_out":%d)", step.epoch,
                                   step.samples, step.staleness, step.bytes_out));
      double begin = step.begin;
      for (int i = 0; i < kCoursePhases; ++i) {
        const double end = std::min(begin + step.phase[i], step.end());
        trace_.Slice(row, 1, kPhaseNames[i], begin, end - begin);
        begin = end;
      }
    }
  }

  // True if the worker was lost between the end of its last step and `end`; a lost worker waits for nothing.
  bool Lost(int rank, double last_step_end, double end) const {
    for (const proto::WorkerLoss& loss : summary_.worker_loss()) {
      const double time = begin_.value_or(0) + Bounded(loss.seconds()) * 1e6;
      if (loss.worker() == rank && time >= last_step_end && time <= end) return true;
    }
    return false;
  }

  // Seconds of validation by epoch, from 1. If an epoch has two lines, the later one counts.
  std::map<int64_t, double> Validations() const {
    std::map<int64_t, double> seconds;
    for (CsvReader csv(files_.epochs_csv); csv.Next();) {
      seconds[csv.Integer("epoch")] = Bounded(csv.Number("validation_seconds"));
    }
    return seconds;
  }

  void AddSegments() {
    const std::map<int64_t, double> validations = Validations();
    for (size_t i = 0; i < course_.segments.size(); ++i) {
      const CourseSegment& segment = course_.segments[i];
      const bool last = i + 1 == course_.segments.size();
      const absl::optional<double> next = last ? End() : course_.segments[i + 1].begin;
      double end = segment.begin;
      for (const auto& [rank, step] : segment.last) end = std::max(end, course_.steps[step].end());
      // Clock estimates have errors, so another worker's next step may seem to begin before this segment's
      // last step ended.
      if (!last) end = std::min(end, *next);
      trace_.Slice(kChief, 1, absl::StrCat("training, epoch ", segment.epoch), segment.begin,
                   end - segment.begin);
      AddBarrier(segment, end);
      if (const auto found = validations.find(segment.epoch);
          segment.ends_epoch && found != validations.end()) {
        const double until = std::min(end + found->second * 1e6, next.value_or(end + found->second * 1e6));
        trace_.Slice(kChief, 1, "validation", end, until - end, absl::StrCat("\"epoch\":", segment.epoch));
        end = std::max(end, until);
      }
      if (next.has_value()) AddRest(segment, last, end, *next);
    }
  }

  void AddBarrier(const CourseSegment& segment, double end) {
    double first = end;
    for (const auto& [rank, index] : segment.last) {
      const CourseStep& step = course_.steps[index];
      if (Lost(rank, step.end(), end)) continue;
      first = std::min(first, step.end());
      trace_.Slice(WorkerRow(rank), 1, "barrier", step.end(), std::min(end, step.next) - step.end());
    }
    trace_.Slice(kChief, 1, "barrier", first, end - first);
  }

  // Adds a slice for the time from the end of validation until training goes on or the run ends.
  void AddRest(const CourseSegment& segment, bool last, double begin, double end) {
    std::vector<std::string> parts;
    if (last && summary_.has_test()) parts.push_back("test");
    if (segment.saved) parts.push_back("checkpoint");
    if (!parts.empty()) trace_.Slice(kChief, 1, absl::StrJoin(parts, " and "), begin, end - begin);
  }

  // The time when the chief ended.
  absl::optional<double> End() const {
    if (!begin_.has_value() || summary_.attempt().empty()) return absl::nullopt;
    return *begin_ + Bounded(std::prev(summary_.attempt().end())->total_seconds()) * 1e6;
  }

  void AddPushes() {
    for (const CoursePush& push : course_.pushes) {
      const CourseStep& step = course_.steps[push.step];
      const TraceRow row = {TraceRow::Role::kServer, push.server};
      const int part = step.rank + 1;
      const double backward_end = step.phase[0] + step.phase[1] + step.phase[2];
      const double begin = step.begin + (step.first_ready > 0 ? step.first_ready : backward_end);
      trace_.NamePart(row, part, absl::StrCat("pushes of worker ", step.rank));
      trace_.Slice(row, part, absl::StrCat("push of step ", step.step), begin,
                   std::min(step.exchange_end(), step.end()) - begin,
                   absl::StrFormat(R"("version":%d,"samples":%d,"staleness":%d)", push.version, step.samples,
                                   step.staleness));
    }
  }

  void AddLosses(double begin) {
    for (const proto::WorkerLoss& loss : summary_.worker_loss()) {
      trace_.Instant(kChief, absl::StrCat("lost worker ", loss.worker()),
                     begin + Bounded(loss.seconds()) * 1e6);
    }
    for (const proto::ServerLoss& loss : summary_.server_loss()) {
      trace_.Instant(kChief, absl::StrCat("lost ps ", loss.server()), begin + Bounded(loss.seconds()) * 1e6);
    }
  }

  // Adds the samples of the last attempt. In resources.csv, time starts at 0 in every attempt, so a time that
  // goes back shows that a new attempt began.
  void AddResources(double begin) {
    struct Sample {
      std::string process;
      double seconds, cpu, in, out;
    };
    std::vector<Sample> samples;
    std::map<std::string, double> latest;  // The time of each process's latest sample.
    for (CsvReader csv(files_.resources_csv); csv.Next();) {
      const std::string process(csv.Text("process"));
      const double seconds = Bounded(csv.Number("seconds"));
      if (const auto found = latest.find(process); found != latest.end() && seconds < found->second) {
        samples.clear();
        latest.clear();
      }
      latest[process] = seconds;
      samples.push_back({process, seconds, Bounded(csv.Number("cpu_percent")),
                         Bounded(csv.Number("network_in_bytes")), Bounded(csv.Number("network_out_bytes"))});
    }
    latest.clear();
    for (const Sample& sample : samples) {
      TraceRow row;
      if (!ParseTraceRow(sample.process, row)) continue;
      const double time = begin + sample.seconds * 1e6;
      trace_.Counter(row, "CPU %", time, absl::StrFormat("\"of a core\":%.1f", sample.cpu));
      const auto [before, first] = latest.emplace(sample.process, sample.seconds);
      if (first) continue;  // The length of a first sample's interval is not known.
      const double length = sample.seconds - before->second;
      before->second = sample.seconds;
      if (length < kShortestInterval) continue;
      trace_.Counter(
          row, "network MB/s", time,
          absl::StrFormat("\"in\":%.3f,\"out\":%.3f", sample.in / length / 1e6, sample.out / length / 1e6));
    }
  }

  const TracedFiles& files_;
  const proto::RunSummary& summary_;
  const RunCourse course_;
  TraceWriter trace_;
  absl::optional<double> begin_;  // The time when the chief started; absent: not known.
};

}  // namespace

std::string ChromeTrace(const TracedFiles& files, const proto::RunSummary& summary) {
  return RunTrace(files, summary).Json();
}

absl::Status WriteTrace(const std::string& run_dir) {
  TETHYS_ASSIGN_OR_RETURN(const proto::RunSummary summary, ReadSummary(run_dir));
  TETHYS_ASSIGN_OR_RETURN(const std::string steps, ReadFile(run_dir + "/steps.csv"));
  // These files may be missing.
  const std::string epochs = ReadFile(run_dir + "/epochs.csv").value_or("");
  const std::string resources = ReadFile(run_dir + "/resources.csv").value_or("");
  const std::string journal = ReadFile(run_dir + "/journal").value_or("");
  return WriteFileAtomically(
      run_dir + "/trace.json",
      ChromeTrace({.steps_csv = steps, .epochs_csv = epochs, .resources_csv = resources, .journal = journal},
                  summary));
}

}  // namespace tethys
