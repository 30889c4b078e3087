#include "deploy/report/run_course.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "deploy/report/trace_writer.h"
#include "runtime/telemetry/csv_reader.h"

namespace tethys {
namespace {

constexpr const char* kPhaseColumns[kCoursePhases] = {"data_ns", "forward_ns", "backward_ns", "exchange_ns",
                                                      "update_ns"};

// In microseconds. Larger times come from damaged files; sums of accepted times are finite.
constexpr double kMostTime = 1e18;

// In microseconds. Better estimates of the chief's clock move the recorded times of a worker back by at most
// this. If the times go back further, another attempt began.
constexpr double kMostCorrection = 1e6;

double Microseconds(const CsvReader& csv, const std::string& column) {
  return std::clamp(csv.Number(column) / 1e3, -kMostTime, kMostTime);
}

CourseStep StepOf(const CsvReader& csv) {
  CourseStep step{.rank = static_cast<int>(std::clamp<int64_t>(csv.Integer("rank"), 0, TraceRow::kMostIndex)),
                  .step = csv.Integer("step"),
                  .epoch = csv.Integer("epoch"),
                  .sample_begin = csv.Integer("sample_begin"),
                  .samples = csv.Integer("samples"),
                  .staleness = csv.Integer("staleness"),
                  .bytes_out = csv.Integer("bytes_out"),
                  .begin = Microseconds(csv, "begin_ns"),
                  .total = Microseconds(csv, "total_ns")};
  for (int i = 0; i < kCoursePhases; ++i) step.phase[i] = Microseconds(csv, kPhaseColumns[i]);
  const absl::string_view ready = csv.Text("bucket_ready_ns");
  double first = 0;
  if (absl::SimpleAtod(ready.substr(0, ready.find(' ')), &first) && first > 0) {
    step.first_ready = std::min(first / 1e3, kMostTime);
  }
  return step;
}

// The last attempt, as the journal records it (runtime/chief/journal.h).
struct AttemptJournal {
  struct Applied {
    int server = 0;
    int64_t worker = 0;
    int64_t sample_begin = 0;
    int64_t version = 0;
  };
  int attempts = 0;
  double epoch_length = 0;  // The number of positions in an epoch's order of samples (journal.h).
  // For each worker: the position at which the worker's first batch began, counted from the start of the job.
  std::map<int64_t, int64_t> first_used = {};
  // For each epoch (from 0): the positions in the epoch at which a checkpoint was saved. They cut the epoch
  // into segments.
  std::map<int64_t, std::set<double>> cuts = {};
  std::set<int64_t> saved_ends = {};  // Epochs, from 0, at whose end a checkpoint was saved.
  std::set<int64_t> ended = {};       // Epochs, from 0, that were completed.
  std::vector<Applied> applied = {};
};

// Parses `count` of `words`, from the second on, as numbers; empty if one of them is missing, negative or no
// number.
std::vector<int64_t> Numbers(const std::vector<absl::string_view>& words, size_t count) {
  std::vector<int64_t> numbers;
  for (size_t i = 1; i <= count; ++i) {
    int64_t number = 0;
    if (i >= words.size() || !absl::SimpleAtoi(words[i], &number) || number < 0) return {};
    numbers.push_back(number);
  }
  return numbers;
}

void TakeLine(absl::string_view line, AttemptJournal& journal) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  std::vector<int64_t> n;
  if (words[0] == "attempt" && !(n = Numbers(words, 4)).empty()) {
    const int attempts = journal.attempts + 1;
    journal = {.attempts = attempts, .epoch_length = static_cast<double>(n[3])};
  } else if (words[0] == "used" && !(n = Numbers(words, 4)).empty()) {
    journal.first_used.emplace(n[0], n[2]);
  } else if (words[0] == "applied" && !(n = Numbers(words, 6)).empty() && n[0] <= TraceRow::kMostIndex) {
    journal.applied.push_back({static_cast<int>(n[0]), n[1], n[3], n[5]});
  } else if (words[0] == "saved" && !(n = Numbers(words, 3)).empty()) {
    if (n[2] > 0) journal.cuts[n[1]].insert(static_cast<double>(n[2]));
    if (n[2] == 0 && n[1] > 0) journal.saved_ends.insert(n[1] - 1);
  } else if (words[0] == "epoch" && !(n = Numbers(words, 2)).empty()) {
    journal.ended.insert(n[0]);
  }
}

AttemptJournal ReadJournal(absl::string_view text) {
  AttemptJournal journal;
  // A last line without its newline was cut off.
  for (size_t end; (end = text.find('\n')) != absl::string_view::npos; text.remove_prefix(end + 1)) {
    TakeLine(text.substr(0, end), journal);
  }
  return journal;
}

// For each rank and first sample: the index of the last step of this rank with this first sample.
using StepIndex = std::map<std::pair<int64_t, int64_t>, size_t>;

size_t FirstOfLastAttempt(const RunCourse& course, const AttemptJournal& journal, const StepIndex& index) {
  if (journal.attempts == 0) return course.steps.size();
  if (journal.attempts == 1) return 0;
  size_t first = course.steps.size();
  for (const auto& used : journal.first_used) {
    if (const auto found = index.find(used); found != index.end()) first = std::min(first, found->second);
  }
  return first;
}

// Delays steps that begin before the previous step of their rank has ended, and fills in `next`.
void PutInOrder(RunCourse& course) {
  std::map<int, size_t> previous;  // The previous step, by rank.
  for (size_t i = 0; i < course.steps.size(); ++i) {
    if (i == course.first) previous.clear();
    CourseStep& step = course.steps[i];
    const auto [found, first] = previous.try_emplace(step.rank, i);
    if (first) continue;
    CourseStep& before = course.steps[found->second];
    if (before.end() - step.begin <= kMostCorrection) step.begin = std::max(step.begin, before.end());
    before.next = step.begin;
    found->second = i;
  }
}

std::vector<CourseSegment> SegmentsOf(const RunCourse& course, const AttemptJournal& journal) {
  // The key is the epoch, and the number of checkpoints in the epoch before the segment (journal.cuts).
  std::map<std::pair<int64_t, size_t>, CourseSegment> segments;
  for (size_t i = course.first; i < course.steps.size(); ++i) {
    const CourseStep& step = course.steps[i];
    if (step.epoch < 1) continue;
    const int64_t epoch = step.epoch - 1;
    size_t cut = 0;
    bool cut_follows = false;
    if (const auto cuts = journal.cuts.find(epoch); cuts != journal.cuts.end()) {
      const double position =
          static_cast<double>(step.sample_begin) - static_cast<double>(epoch) * journal.epoch_length;
      const auto next = cuts->second.upper_bound(position);
      cut = static_cast<size_t>(std::distance(cuts->second.begin(), next));
      cut_follows = next != cuts->second.end();
    }
    if (!cut_follows && journal.ended.count(epoch) == 0) continue;  // The segment was not completed.
    const auto [found, added] = segments.try_emplace({epoch, cut});
    CourseSegment& segment = found->second;
    segment.epoch = step.epoch;
    segment.saved = cut_follows || journal.saved_ends.count(epoch) > 0;
    segment.begin = added ? step.begin : std::min(segment.begin, step.begin);
    segment.last[step.rank] = i;
  }
  std::vector<CourseSegment> ordered;
  for (auto& [key, segment] : segments) {
    if (!ordered.empty()) ordered.back().ends_epoch = ordered.back().epoch != segment.epoch;
    ordered.push_back(std::move(segment));
  }
  if (!ordered.empty()) ordered.back().ends_epoch = true;
  return ordered;
}

}  // namespace

RunCourse ReadRunCourse(absl::string_view steps_csv, absl::string_view journal_text) {
  RunCourse course;
  StepIndex index;
  for (CsvReader csv(steps_csv); csv.Next();) {
    course.steps.push_back(StepOf(csv));
    index[{course.steps.back().rank, course.steps.back().sample_begin}] = course.steps.size() - 1;
  }
  const AttemptJournal journal = ReadJournal(journal_text);
  course.first = FirstOfLastAttempt(course, journal, index);
  PutInOrder(course);
  course.segments = SegmentsOf(course, journal);
  for (const AttemptJournal::Applied& applied : journal.applied) {
    const auto found = index.find({applied.worker, applied.sample_begin});
    if (found == index.end() || found->second < course.first) continue;
    course.pushes.push_back({applied.server, found->second, applied.version});
  }
  return course;
}

}  // namespace tethys
