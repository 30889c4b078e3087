// The time of a step from several visits (proto::StepVisit: measurements of some consecutive steps) with one
// batch size, for sweeps and calibrations. Pure; any thread.
#ifndef TETHYS_DEPLOY_SWEEP_BATCH_TIME_H_
#define TETHYS_DEPLOY_SWEEP_BATCH_TIME_H_

#include <vector>

#include "proto/sweep.pb.h"

namespace tethys {

// Lower quartiles over the undisturbed visits or, if all were disturbed, over all visits; the fields
// `error` and `round` are not set. Requires at least one visit, and visits of one batch.
proto::BatchTime BatchTimeOf(const std::vector<proto::StepVisit>& visits);

// BatchTimeOf with all times scaled to the mean step of all visits. This is the time of a step if a control
// group limits CPU time: a step that finds quota left is as fast as without a limit, and the next step waits
// for new quota.
proto::BatchTime MeanBatchTimeOf(const std::vector<proto::StepVisit>& visits);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_SWEEP_BATCH_TIME_H_
