// When training is to end because validation no longer improves: the rule of Keras's EarlyStopping callback
// (proto/job.proto, EarlyStopping). Pure; belongs to the controller.
#ifndef TETHYS_RUNTIME_CHIEF_EARLY_STOPPING_H_
#define TETHYS_RUNTIME_CHIEF_EARLY_STOPPING_H_

#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/telemetry.pb.h"

namespace tethys {

// Looks at an epoch that was validated, and brings `state` up to date. A value that is not a number is no
// improvement.
void WatchEpoch(const proto::EarlyStopping& rule, const proto::EpochResult& result,
                proto::EarlyStoppingState& state);

// Training is over. A job that is resumed with a larger patience goes on.
bool StopsEarly(const proto::EarlyStopping& rule, const proto::EarlyStoppingState& state);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_EARLY_STOPPING_H_
