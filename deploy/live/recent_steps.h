// Figures of the steps of the last half minute, computed from proto::Pulse, which a run reports about once a
// second. Pure; thread-compatible.
#ifndef TETHYS_DEPLOY_LIVE_RECENT_STEPS_H_
#define TETHYS_DEPLOY_LIVE_RECENT_STEPS_H_

#include <deque>
#include <map>
#include <string>

#include "absl/types/optional.h"
#include "proto/telemetry.pb.h"

namespace tethys {

// Times are in seconds.
struct StepFigures {
  double step = 0;  // Mean time of all steps of all workers.
  int workers = 0;  // The number of workers that make steps.
  // The computing time of a step: loading data, the forward pass and the backward pass.
  double median_compute = 0;   // The computing time of the median worker.
  double slowest_compute = 0;  // The computing time of the slowest worker.
  double median_exchange = 0;  // Seconds of a step in which the median worker waits for its exchange.
  // The shortest wait of any worker for its exchange. In lock step, this is the time of the exchange alone:
  // the slowest worker does not wait for other workers.
  double least_exchange = 0;
  // The share of the CPU that other programs use, on the machine where it is largest, in [0, 1]. 0: not
  // known.
  double others_cpu = 0;
  std::string others_host = {};
};

class RecentSteps {
 public:
  static constexpr double kSeconds = 30;
  // Figures returns nullopt unless the entries cover at least this many seconds and steps.
  static constexpr double kLeastSeconds = 5;
  static constexpr double kLeastSteps = 20;

  // The steps of the first pulse that has steps are left out, because first steps take longer.
  void Add(const proto::Pulse& pulse);
  // nullopt: there are too few steps yet.
  absl::optional<StepFigures> Figures() const;

 private:
  struct Entry {
    double at = 0;  // Seconds since the chief started.
    // The number of steps, and the sum of their times, since the job started.
    double steps = 0, step_seconds = 0;
    StepFigures figures = {};                   // `step` and the share of other programs are not set.
    std::map<std::string, double> others = {};  // The share of the CPU that other programs use, by machine.
  };
  std::deque<Entry> entries_;  // At most kMostEntries, in order of time.
  static constexpr size_t kMostEntries = 100;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LIVE_RECENT_STEPS_H_
