// Finds the best epoch on the validation split (checkpoint.keep_best). Pure; called by JobController.
#ifndef TETHYS_RUNTIME_CHIEF_BEST_EPOCH_H_
#define TETHYS_RUNTIME_CHIEF_BEST_EPOCH_H_

#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/telemetry.pb.h"

namespace tethys {

// Returns true if the epoch is better than the best so far, and records the epoch in `state`. Of equal
// epochs, the first stays the best; a NaN is never best.
bool NoteIfBest(proto::Monitor monitor, const proto::EpochResult& result, proto::TrainingState& state);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_BEST_EPOCH_H_
