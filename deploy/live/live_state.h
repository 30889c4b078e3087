// Folds the events of a run into the state that its live view shows. Pure; thread-compatible.
#ifndef TETHYS_DEPLOY_LIVE_LIVE_STATE_H_
#define TETHYS_DEPLOY_LIVE_LIVE_STATE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/types/optional.h"
#include "deploy/live/recent_steps.h"
#include "deploy/live/time_left.h"
#include "proto/live.pb.h"
#include "proto/telemetry.pb.h"

namespace tethys {

// Invariants, for any events:
//  1. The state is bounded: curves have at most kMostPoints points, lists of epochs kMostEpochs, of tasks
//     kMostTasks, of notes kMostNotes.
//  2. The steps of the curve and the numbers of the epochs rise: an attempt that goes on from a checkpoint
//     replaces what it repeats.
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

  void Add(const proto::ProgressEvent& event);
  // Forgets all events, not what is expected.
  void Clear();
  // Compares the run with this from the next pulse on; nullopt: with nothing.
  void Expect(absl::optional<proto::Expectation> expectation) { expectation_ = std::move(expectation); }

  const proto::LiveState& state() const { return state_; }

 private:
  void AddProgress(const proto::Progress& progress);
  void AddEpoch(const proto::EpochResult& epoch);
  void AddPulse(const proto::Pulse& pulse);
  void FindSlowWorkers();
  void FindLinkUse();
  void Compare(const proto::Pulse& pulse);

  absl::optional<proto::Expectation> expectation_;
  RecentSteps recent_;
  TimeLeft time_left_;
  proto::LiveState state_;
};

// The state in OpenMetrics 1.0, for /metrics. `state` has a job's name.
std::string OpenMetricsText(const proto::LiveState& state);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LIVE_LIVE_STATE_H_
