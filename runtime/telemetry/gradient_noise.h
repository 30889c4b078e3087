// The gradient-noise scale of a job, from the squared norms in its step records.
//
// Source: McCandlish et al. (2018), "An empirical model of large-batch training", appendix A.1. The mean
// gradient g_b over b samples has E|g_b|^2 = |G|^2 + S / b, where G is the true gradient, and S is the trace
// of the covariance of one sample's gradient. A step of n workers gives this norm for the batches of the
// workers, of b_1 ... b_n samples, and for all these batches together, of B samples:
//
//   S     = (mean of |g_b|^2 - |g_B|^2) / (mean of 1 / b - 1 / B)
//   |G|^2 = |g_B|^2 - S / B
//   noise scale = S / |G|^2, in samples
//
// Both estimates have no bias but much variance, so they are averaged over the steps of an epoch before the
// division. Pure. Thread-compatible.
#ifndef TETHYS_RUNTIME_TELEMETRY_GRADIENT_NOISE_H_
#define TETHYS_RUNTIME_TELEMETRY_GRADIENT_NOISE_H_

#include <cstdint>
#include <map>

#include "proto/chief_snapshot.pb.h"
#include "proto/summary.pb.h"
#include "proto/telemetry.pb.h"
#include "runtime/base/status.h"

namespace tethys {

class GradientNoise {
 public:
  // Adds a record of a step that `workers` workers made; records may be added in any order. A step counts
  // once the records of all its workers have been added, provided that every worker measured its norms and
  // had samples. A step whose records are incomplete is dropped when kMostPending later steps have begun.
  void Add(const proto::StepRecord& record, int workers);

  // Fills in the gradient noise: one entry for each epoch with measured steps, in ascending order of epochs.
  void FillSummary(proto::RunSummary& summary) const;

  void Save(proto::NoiseState& state) const;
  // Requires a new object. InvalidArgument: no object can have this state.
  absl::Status Restore(const proto::NoiseState& state);

 private:
  static constexpr size_t kMostPending = 1024;

  struct Step {
    int64_t epoch = 0;
    int records = 0;
    int64_t samples = 0;
    double own_squares = 0;  // Sum of |g_b|^2 over workers.
    double inverses = 0;     // Sum of 1 / b over workers.
    double sum_square = 0;   // The value |B g_B|^2.
  };
  struct Epoch {
    int64_t steps = 0;
    double variance = 0;  // This field and the next: sums over the measured steps.
    double gradient_square = 0;
  };

  void Count(const Step& step);

  std::map<int64_t, Step> pending_;  // Steps by number.
  std::map<int64_t, Epoch> epochs_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_TELEMETRY_GRADIENT_NOISE_H_
