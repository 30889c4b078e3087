// Ends training once validation no longer improves, by the rule of Keras's EarlyStopping callback
// (proto/job.proto, EarlyStopping). Pure; called by JobController and SegmentPlanner.
#ifndef TETHYS_RUNTIME_CHIEF_EARLY_STOPPING_H_
#define TETHYS_RUNTIME_CHIEF_EARLY_STOPPING_H_

#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/telemetry.pb.h"

namespace tethys {

// Prepares the state of a checkpoint for a job that goes on with `rule` (null: without early stopping). A
// value that the rule does not compare (of another monitor, or with other first epochs that are ignored) is
// forgotten, and so is the value of a job that watches no longer. False: something was forgotten, and the
// rule begins anew.
bool ContinueWatch(const proto::EarlyStopping* rule, proto::TrainingState& state);

// Updates `state` with the result of a validated epoch. A NaN is no improvement.
void WatchEpoch(const proto::EarlyStopping& rule, const proto::EpochResult& result,
                proto::EarlyStoppingState& state);

// Whether the rule ends the training. A job that is resumed with a larger patience trains on.
bool StopsEarly(const proto::EarlyStopping& rule, const proto::EarlyStoppingState& state);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_EARLY_STOPPING_H_
