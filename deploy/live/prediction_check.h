// Compares a run's measurements with the prediction made before its start. If the run is slower and the
// measurements show why, gives the reason. Pure; any thread.
#ifndef TETHYS_DEPLOY_LIVE_PREDICTION_CHECK_H_
#define TETHYS_DEPLOY_LIVE_PREDICTION_CHECK_H_

#include "absl/types/optional.h"
#include "deploy/live/recent_steps.h"
#include "proto/live.pb.h"

namespace tethys {

// Returns nullopt if the expectation has no throughput. The tasks in `state` must have their health and their
// use of links.
//
// A reason is given only for a run that is slower than the interval of its prediction. The excess of the step
// time over the predicted step time is split into two parts, computing and exchange. A part is named if it
// makes up at least a quarter of the excess. No part is named if these parts make up less than half of the
// excess. A reason names one of these:
//   - a slow worker (LiveFold::kSlowRatio), instead of computing: in lock step all workers wait for it
//   - computing, with the share of the CPU that other programs use if that share is 10 % or more
//   - the exchange, with the host whose link is full
// If workers do not wait for each other, the slowest worker is named if the throughput that slow workers lose
// makes up at least half of the throughput that the run lacks.
absl::optional<proto::Comparison> CompareWithPrediction(const proto::Expectation& expectation,
                                                        const StepFigures& figures,
                                                        const proto::LiveState& state);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LIVE_PREDICTION_CHECK_H_
