// How long a run still takes, with an interval. Pure; thread-compatible.
//
// The time of the second half of the attempt so far is cut into blocks, 8 to 32 of them, each with the
// seconds that a sample took in it. A block includes all that happened in it: steps, barriers, validation,
// checkpoints. The time left is the samples that are left times the mean of the blocks. Its 90 % interval
// takes the blocks as independent and those to come as like those seen: with k blocks seen, m blocks to come
// and a relative deviation d among blocks, the relative deviation of the time left is d sqrt(1/k + 1/m), by
// Student's distribution with k - 1 degrees of freedom. Events that have not happened yet are not in it: a
// machine that becomes slow, an early stop, the evaluation of the test split.
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

  // Takes the newest progress. The samples left follow from its own time left, which the chief computes from
  // steps alone.
  void Add(const proto::Progress& progress);
  // Tells that the newest progress was reached `seconds` after the chief started.
  void At(double seconds);
  // The time left, in seconds; nullopt: too little is known yet.
  absl::optional<proto::Estimate> Left() const;

 private:
  struct Mark {
    double seconds = 0;
    double samples = 0;  // Samples used since the job began.
  };
  // In order of time, with even gaps; if there are too many marks, every second one is dropped.
  std::vector<Mark> marks_;
  double gap_ = 0;  // The least number of seconds between two marks.
  Mark newest_;
  double samples_ = 0;        // The samples used, according to the newest progress.
  double total_samples_ = 0;  // The samples of the whole job; 0: not known.
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LIVE_TIME_LEFT_H_
