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
// The comparison gives a reason only for a run whose throughput lies below the interval of its prediction.
// The excess of the measured step time over the predicted step time has two parts, computing and exchange. A
// part is named if it makes up at least a quarter of the excess. But if all named parts together make up less
// than half of the excess, the comparison gives no reason. The text names:
//   - for computing: the slowest worker, if the workers run in lock step and one of them is slow
//     (LiveFold::kSlowRatio), because all workers then wait for it; otherwise the time of computing, and the
//     share of the CPU that other programs use if that share is 10 % or more
//   - for the exchange: the time of the exchange, and the host whose link is full, if there is one
// In a job whose workers do not wait for each other, the reason is the slowest worker if slow workers cause
// at least half of the difference between the predicted and the measured throughput.
absl::optional<proto::Comparison> CompareWithPrediction(const proto::Expectation& expectation,
                                                        const StepFigures& figures,
                                                        const proto::LiveState& state);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LIVE_PREDICTION_CHECK_H_
