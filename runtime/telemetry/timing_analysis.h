// Iteration times, defined as in a comparison of cloud GPU instances by iteration time:
//
//   TMiAvg = mean time of all iterations of the run except the very first
//   beta   = (time of the first iteration + validation time) / (time of all other iterations)
//   three estimates of TMiAvg from the first epoch: iteration 2; mean of 2-6; mean of 2-11
//   error of an estimate = |estimate - TMiAvg| / TMiAvg
//
// A small beta means that TMiAvg alone ranks machines by training time. The first iteration does not include
// building the plan. An iteration is a step's total time, from waiting for its batch until the next step's
// parameters have arrived; so it excludes barriers, validation and checkpoints between steps.
//
// Pure: no clock, no files. Thread-compatible.
#ifndef TETHYS_RUNTIME_TELEMETRY_TIMING_ANALYSIS_H_
#define TETHYS_RUNTIME_TELEMETRY_TIMING_ANALYSIS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "proto/chief_snapshot.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace tethys {

// Iterations of one worker in order, in bounded memory.
class IterationTimes {
 public:
  void Add(int64_t epoch, Nanoseconds total_ns);

  int64_t count() const { return count_; }
  Nanoseconds first_ns() const { return early_.empty() ? 0 : early_[0]; }
  Nanoseconds remaining_ns() const { return sum_ns_ - first_ns(); }
  // Iterations 1, 2, ... of the first epoch, at most kEarly.
  absl::Span<const Nanoseconds> early() const { return early_; }

  static constexpr int kEarly = 11;

  // For synchronous strategies, whose workers make each step together: the iterations of the slowest worker.
  // Each early iteration is the maximum over the workers. The sum of all iterations is the maximum of the
  // workers' sums. A sum of per-step maxima could exceed the wall-clock time. Workers that were lost or
  // joined later, and so made fewer iterations than another, do not count.
  static IterationTimes Slowest(absl::Span<const IterationTimes> workers);

  void Save(proto::IterationState& state) const;
  // InvalidArgument: no worker can have this state.
  absl::Status Restore(const proto::IterationState& state);

 private:
  int64_t count_ = 0;
  int64_t first_epoch_ = 0;
  Nanoseconds sum_ns_ = 0;
  std::vector<Nanoseconds> early_;
};

// Times are in seconds. A value for which there are too few iterations is absent.
struct TimingAnalysis {
  struct Estimate {
    double seconds = 0;
    double error = 0;
  };
  double first_iteration = 0;
  std::optional<double> tmi_avg;
  std::optional<double> beta;
  std::array<std::optional<Estimate>, 3> estimates;  // Estimates from iterations 2, 2-6 and 2-11.
};
inline constexpr std::array<int, 3> kEstimateLast = {2, 6, 11};

TimingAnalysis Analyse(const IterationTimes& times, double validation_seconds);

// For asynchronous strategies: the mean of the analyses of all workers, each value over the workers that have
// it.
TimingAnalysis Mean(absl::Span<const TimingAnalysis> workers);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_TELEMETRY_TIMING_ANALYSIS_H_
