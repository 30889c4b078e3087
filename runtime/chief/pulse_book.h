// Collects the reports of tasks and makes pulses of them. A pulse has the state of every task, and
// measurements of the last second (proto::Pulse). Owned by JobController. Pure; thread-compatible.
//
// The cost does not grow with the rate of steps: if a worker makes more than kMostSteps steps between two
// pulses, its quartiles are computed from the newest kMostSteps steps.
#ifndef TETHYS_RUNTIME_CHIEF_PULSE_BOOK_H_
#define TETHYS_RUNTIME_CHIEF_PULSE_BOOK_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "proto/chief_state.pb.h"
#include "proto/telemetry.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/chief/chief_actions.h"
#include "runtime/chief/roster.h"

namespace tethys {

class PulseBook {
 public:
  static constexpr size_t kMostSteps = 256;
  static constexpr size_t kBuckets = 20;
  static constexpr size_t kStalenessCounts = 64;

  // `stale`: gradients may be applied to a later version of the parameters than the version for which they
  // were computed. Pulses then contain the staleness.
  explicit PulseBook(bool stale) : stale_(stale) {}

  // Adds records of the steps that worker `worker` has made. Requires that JobController has checked the
  // records.
  void AddSteps(int worker, const proto::StepRecords& records);
  using Samples = google::protobuf::RepeatedPtrField<proto::ResourceSample>;
  // Adds resource samples of the task, which runs on `host`.
  void AddSamples(TaskId task, const std::string& host, const Samples& samples);
  // Adds samples of the chief's own process and machine.
  void AddChiefSamples(const std::string& host, const Samples& samples);

  // Makes a pulse of everything added since the last pulse. `seconds`: the time since the chief started.
  proto::Pulse Take(const Roster& roster, Nanoseconds now, double seconds);

  // Saves only the counts since the chief started, and not the steps and resource samples since the last
  // pulse. Only the next pulse would show these, and tasks report newer steps and samples within a second.
  void Save(proto::PulseState& state) const;
  // InvalidArgument: the number of counts is wrong, or a count is negative.
  absl::Status Restore(const proto::PulseState& state);

 private:
  // The newest values, at most kMostSteps, in arbitrary order.
  struct Window {
    std::vector<double> values;
    size_t next = 0;
    void Add(double value);
  };
  struct Worker {
    Window step, compute, exchange;
    double staleness_sum = 0;
    int64_t steps = 0;
  };

  void AddMachines(const Roster& roster, proto::Pulse& pulse) const;

  const bool stale_;
  std::map<int, Worker> workers_;  // For each worker, its steps since the last pulse.
  std::map<TaskId, proto::ResourceSample> last_sample_;
  std::string chief_host_;
  proto::ResourceSample chief_sample_;  // An interval of 0 means that there is no sample yet.
  std::map<std::string, proto::ResourceSample> machine_sample_;  // The newest sample of each host's machine.
  std::array<int64_t, kBuckets> buckets_{};
  double step_seconds_sum_ = 0;
  std::array<int64_t, kStalenessCounts> staleness_counts_{};
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_PULSE_BOOK_H_
