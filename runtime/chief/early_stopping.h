// Ends training once validation no longer improves, by the rule of Keras's EarlyStopping callback
// (proto/job.proto, EarlyStopping). Pure; called by JobController and SegmentPlanner.
#ifndef TETHYS_RUNTIME_CHIEF_EARLY_STOPPING_H_
#define TETHYS_RUNTIME_CHIEF_EARLY_STOPPING_H_

#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/telemetry.pb.h"

namespace tethys {

// Prepares the state of a checkpoint for a job that goes on with `rule` (null: without early stopping). The
// best value is forgotten if the rule cannot compare it (it is of another monitor, or other first epochs were
// ignored), or if there is no rule any more. Returns false if a value was forgotten, so that the rule begins
// anew.
bool ContinueWatch(const proto::EarlyStopping* rule, proto::TrainingState& state);

// Updates `state` with the result of a validated epoch. A NaN is no improvement.
void WatchEpoch(const proto::EarlyStopping& rule, const proto::EpochResult& result,
                proto::EarlyStoppingState& state);

// True if the rule ends the training. A job that is resumed with a larger patience trains on.
bool StopsEarly(const proto::EarlyStopping& rule, const proto::EarlyStoppingState& state);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_EARLY_STOPPING_H_
