// The timeline of a run, read from its steps.csv and its journal: the steps, the segments between barriers,
// and the pushes that servers applied. Times are in microseconds on the chief's clock. Pure; any thread.
//
// Steps of all attempts are included, but segments and pushes only of the last attempt, because clocks of
// different attempts need not be comparable. Damaged lines are left out.
//
// A worker's estimate of the chief's clock gets better while it runs, so a step may be recorded as beginning
// before the worker's previous step ended. Such a step is delayed until that end, with its length unchanged.
#ifndef TETHYS_DEPLOY_REPORT_RUN_COURSE_H_
#define TETHYS_DEPLOY_REPORT_RUN_COURSE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "absl/strings/string_view.h"

namespace tethys {

// The parts of a step, in their order: data, forward, backward, exchange, update.
constexpr int kCoursePhases = 5;

// A line of steps.csv.
struct CourseStep {
  int rank = 0;  // In [0, TraceRow::kMostIndex].
  int64_t step = 0;
  int64_t epoch = 0;  // Counted from 1.
  int64_t sample_begin = 0;
  int64_t samples = 0;
  int64_t staleness = 0;
  int64_t bytes_out = 0;
  double begin = 0;
  double total = 0;
  // The phases follow one another from `begin` on. On an asynchronous device their sum may exceed `total`.
  std::array<double, kCoursePhases> phase = {};
  double first_ready = 0;  // The time from `begin` until the first gradients were ready; 0: not recorded.
  double next = std::numeric_limits<double>::infinity();  // The beginning of the rank's next step.

  double end() const { return begin + total; }
  // The end of the exchange; the worker's update follows.
  double exchange_end() const { return begin + phase[0] + phase[1] + phase[2] + phase[3]; }
};

// A part of an epoch that ended with a barrier of all workers.
struct CourseSegment {
  int64_t epoch = 0;                // Counted from 1.
  bool ends_epoch = false;          // The segment is the last of its epoch so far.
  bool saved = false;               // A checkpoint was made at the barrier.
  double begin = 0;                 // The time at which the first step of the segment began, on any worker.
  std::map<int, size_t> last = {};  // The index in `steps` of each worker's last step, by rank.
};

// A push that a server applied.
struct CoursePush {
  int server = 0;       // In [0, TraceRow::kMostIndex].
  size_t step = 0;      // Index of the worker's step in `steps`.
  int64_t version = 0;  // The version of the server's shards after the push.
};

struct RunCourse {
  std::vector<CourseStep> steps;
  size_t first = 0;  // Index of the last attempt's first step; steps.size() if it is not known.
  std::vector<CourseSegment> segments;  // In order of time.
  std::vector<CoursePush> pushes;
};

RunCourse ReadRunCourse(absl::string_view steps_csv, absl::string_view journal);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_RUN_COURSE_H_
