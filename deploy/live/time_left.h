// Estimates the time that a run still takes, with a 90 % interval. Pure; thread-compatible.
//
// The second half of the attempt so far is cut into 8 to 32 blocks of time. A block's value is the seconds
// per sample in this block, all activities included: steps, barriers, validation, checkpoints. The time left
// is the number of samples left times the mean of the blocks. Its 90 % interval assumes that the blocks are
// independent and that future blocks are like past blocks: with k past blocks, m future blocks and a relative
// deviation d among blocks, the relative deviation of the time left is d sqrt(1/k + 1/m), by Student's
// distribution with k - 1 degrees of freedom. The estimate does not include events that have not happened
// yet: a machine that becomes slow, an early stop, the evaluation of the test split.
#ifndef TETHYS_DEPLOY_LIVE_TIME_LEFT_H_
#define TETHYS_DEPLOY_LIVE_TIME_LEFT_H_

#include <vector>

#include "absl/types/optional.h"
#include "proto/prediction.pb.h"
#include "proto/telemetry.pb.h"

namespace tethys {

class TimeLeft {
 public:
  static constexpr size_t kMostMarks = 64;
  static constexpr size_t kLeastBlocks = 8;
  static constexpr double kLeastSeconds = 5;

  // Takes the newest progress. The number of samples left is progress.eta_seconds times
  // progress.samples_per_second. Left does not return eta_seconds itself, because it includes only the time
  // of steps.
  void Add(const proto::Progress& progress);
  // Sets when the newest progress was reached: `seconds` after the chief started.
  void At(double seconds);
  // The time left, in seconds; nullopt: too little is known yet.
  absl::optional<proto::Estimate> Left() const;

 private:
  struct Mark {
    double seconds = 0;
    double samples = 0;  // Samples used since the job began.
  };
  // In order of time, with even gaps; if there are too many marks, every second mark is dropped.
  std::vector<Mark> marks_;
  double gap_ = 0;  // The least number of seconds between two marks.
  Mark newest_;
  double samples_ = 0;        // The samples used, according to the newest progress.
  double total_samples_ = 0;  // The samples of the whole job; 0: not known.
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LIVE_TIME_LEFT_H_
