// Compares a run's measurements with the prediction made before its start. If the run is slower and the
// measurements show why, gives the reason. Pure; any thread.
#ifndef TETHYS_DEPLOY_LIVE_PREDICTION_CHECK_H_
#define TETHYS_DEPLOY_LIVE_PREDICTION_CHECK_H_

#include "absl/types/optional.h"
#include "deploy/live/recent_steps.h"
#include "proto/live.pb.h"

namespace tethys {

// nullopt: the expectation holds no throughput. `state`: the state whose tasks have their health and their
// use of links.
//
// A reason is given only for a run that is slower than the interval of its prediction. The excess of the
// steps over the prediction is split into computing and exchange, which both were predicted. Each part is
// named if it makes up a quarter of the excess, but only if the named parts make up half of it:
//   - a slow worker (LiveFold::kSlowRatio), instead of computing: in lock step all workers wait for it
//   - computing, with the share of the CPU that other programs use if that share is 10 % or more
//   - the exchange, with the host whose link is full
// If workers do not wait for each other, a slow worker is named if its loss makes up half of the deficit.
absl::optional<proto::Comparison> CompareWithPrediction(const proto::Expectation& expectation,
                                                        const StepFigures& figures,
                                                        const proto::LiveState& state);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LIVE_PREDICTION_CHECK_H_
