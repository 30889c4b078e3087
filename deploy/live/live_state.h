// Folds the events of a run into the state that its live view shows. Pure; thread-compatible.
#ifndef TETHYS_DEPLOY_LIVE_LIVE_STATE_H_
#define TETHYS_DEPLOY_LIVE_LIVE_STATE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/types/optional.h"
#include "deploy/live/live_mark.h"
#include "deploy/live/recent_steps.h"
#include "deploy/live/time_left.h"
#include "proto/live.pb.h"
#include "proto/telemetry.pb.h"

namespace tethys {

// Invariants, for any events:
//  1. The state is bounded: it has at most kMostPoints points of a curve, kMostEpochs epochs, kMostTasks
//     tasks and kMostNotes notes.
//  2. The steps of the curve's points and the numbers of the epochs ascend. An attempt of the run that
//     continues from a checkpoint repeats some steps and epochs; it replaces their points and epochs.
//  3. A mark (live_mark.h) counts the points and epochs that a reader has, and names their generation. These
//     points and epochs keep their values and indices until the generation changes.
class LiveFold {
 public:
  static constexpr int kMostPoints = 1000;
  static constexpr int kMostEpochs = 2000;
  static constexpr int kMostTasks = 4096;
  static constexpr int kMostNotes = 20;
  // A worker is slow once its own compute time has been above kSlowRatio times the median of all workers for
  // kSlowSeconds.
  static constexpr double kSlowRatio = 1.2;
  static constexpr double kSlowSeconds = 20;

  // `generation`: the number of the first generation (LiveMark::generation). If every fold begins with a
  // different number, a mark of one fold is invalid in all other folds.
  explicit LiveFold(uint64_t generation = 0) : generation_(generation) {}

  void Add(const proto::ProgressEvent& event);
  // Forgets all events, but keeps the prediction that Expect set.
  void Clear();
  // From the next proto::Pulse on, compares the run with the prediction in `expectation`; nullopt: no
  // comparison.
  void Expect(absl::optional<proto::Expectation> expectation) { expectation_ = std::move(expectation); }

  // The state without the points of the curve and without the epochs.
  const proto::LiveState& state() const { return state_; }
  // The state, with those points and epochs that a reader with the mark `known` lacks. If `known` is of
  // another generation, the result has all points and epochs.
  proto::LiveState StateSince(const LiveMark& known) const;
  // The mark for a reader that has the whole state. It counts all points and epochs but the last point and
  // the last epoch, which may still be replaced.
  LiveMark mark() const;

 private:
  // Removes the points and epochs that earlier attempts added after the state from which a new attempt
  // begins.
  void ForgetUndone(const proto::Started& started);
  void AddProgress(const proto::Progress& progress);
  void AddEpoch(const proto::EpochResult& epoch);
  void AddPulse(const proto::Pulse& pulse);
  void CountLoss(const proto::TaskLost& lost);
  void FindSlowWorkers();
  void FindLinkUse();
  void Compare(const proto::Pulse& pulse);
  // Prepares a list with ascending `position` for a new element at the position `next`: removes the elements
  // that the new element replaces, and the last element if it is less than `gap` beyond the last but one.
  // If the list then has `most` elements, leaves out every second element of each kind (`kind` returns 0 or
  // 1), and returns true.
  template <typename List, typename Position, typename Kind>
  bool MakeRoom(List& list, int64_t next, double gap, int most, const Position& position, const Kind& kind);

  absl::optional<proto::Expectation> expectation_;
  RecentSteps recent_;
  TimeLeft time_left_;
  uint64_t generation_;
  // The least number of steps between two points of the curve, except before the last point.
  double curve_gap_ = 0;
  proto::LiveState state_;   // The state without curve and epochs.
  proto::LiveState course_;  // The curve and the epochs alone.
};

// The state in OpenMetrics 1.0, for /metrics. `state` must contain the job's name.
std::string OpenMetricsText(const proto::LiveState& state);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LIVE_LIVE_STATE_H_
