// Lets the workers evaluate a split, one slice per worker, and adds up their results. One such evaluation is
// called a pass. Pure; owned by JobController, which decides when to evaluate, and repeats a pass that is
// incomplete because a worker was lost.
//
//   Begin: Evaluate to every worker -> kCollecting ... OnDone by all -> kComplete
//                                      OnLost of a worker that had not answered ... -> kIncomplete
#ifndef TETHYS_RUNTIME_CHIEF_EVALUATION_COORDINATOR_H_
#define TETHYS_RUNTIME_CHIEF_EVALUATION_COORDINATOR_H_

#include <cstdint>
#include <map>
#include <vector>

#include "proto/chief.pb.h"
#include "proto/chief_state.pb.h"
#include "proto/summary.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/chief/chief_actions.h"
#include "runtime/chief/quality_sums.h"

namespace tethys {

// Invariant: a pass is complete only if its sums cover every sample of the split once.
class EvaluationCoordinator {
 public:
  // `labels` is the number of labels of a sample; `classes` is the number of classes of a confusion matrix.
  EvaluationCoordinator(int64_t labels, int64_t classes) : labels_(labels), classes_(classes) {}

  enum class State {
    kIdle,        // No pass has begun yet.
    kCollecting,  // At least one worker has not answered.
    kComplete,
    kIncomplete,  // No answer is awaited, and samples are missing.
  };

  // Begins pass `id` over the `samples` samples of `split`, with the moving statistics `statistics`. Each of
  // `workers` evaluates one slice. A pass without workers is incomplete at once.
  void Begin(int64_t id, proto::Split split, int64_t samples, const std::vector<float>& statistics,
             const std::vector<TaskId>& workers, Nanoseconds now, Actions& actions);
  // Takes a worker's answer. An answer to another pass, or a repeated answer, has no effect. InvalidArgument:
  // the task has no slice in this pass, or its counts are impossible for its slice.
  absl::Status OnDone(TaskId worker, const proto::EvaluationDone& done);
  // Notes that the worker is lost and will not answer any more.
  void OnLost(TaskId worker);

  State state() const;
  proto::Quality Quality() const { return sums_.Quality(); }
  double Seconds(Nanoseconds now) const { return ToSeconds(now - begin_); }
  // The id of the last pass; 0 if no pass has begun.
  int64_t id() const { return id_; }

  void Save(proto::EvaluationState& state) const;
  // Restores the state that Save has saved. InvalidArgument: a part (a worker's slice) in `state` belongs to
  // no worker of the job, or the number of summed samples is not the number of samples in the parts that were
  // counted.
  absl::Status Restore(const proto::EvaluationState& state, int workers);

 private:
  bool IsPossible(const proto::EvaluationDone& done) const;

  enum class Answer { kAwaited, kCounted, kLost };
  struct Part {
    int64_t samples = 0;
    Answer answer = Answer::kAwaited;
  };

  const int64_t labels_;
  const int64_t classes_;
  int64_t id_ = 0;  // 0: no pass has begun.
  int64_t samples_ = 0;
  std::map<TaskId, Part> parts_;
  QualitySums sums_;
  Nanoseconds begin_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_EVALUATION_COORDINATOR_H_
