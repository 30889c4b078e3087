// Ends training once validation no longer improves, by the rule of Keras's EarlyStopping callback
// (proto/job.proto, EarlyStopping). Pure; called by JobController and SegmentPlanner.
#ifndef TETHYS_RUNTIME_CHIEF_EARLY_STOPPING_H_
#define TETHYS_RUNTIME_CHIEF_EARLY_STOPPING_H_

#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/telemetry.pb.h"

namespace tethys {

// Prepares the state of a checkpoint for a job that is resumed with `rule` (null: without early stopping).
// Removes the best value from `state` if there is no rule any more, or if the value was found under another
// monitor or start_from_epoch and therefore cannot be compared. Returns false if a value was removed: the
// rule then begins anew.
bool ContinueWatch(const proto::EarlyStopping* rule, proto::TrainingState& state);

// Updates `state` with the result of a validated epoch. A NaN is no improvement.
void WatchEpoch(const proto::EarlyStopping& rule, const proto::EpochResult& result,
                proto::EarlyStoppingState& state);

// True if the rule ends the training. A job that is resumed with a larger patience trains on.
bool StopsEarly(const proto::EarlyStopping& rule, const proto::EarlyStoppingState& state);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_EARLY_STOPPING_H_
